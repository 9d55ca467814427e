//! JSON of configurations and descriptions, by `serde_json`, which bounds its depth.

use serde_json::Value;

/// A value of JSON.
#[derive(Debug, Clone)]
pub(crate) struct Json(Value);

impl Json {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map(Self).map_err(|error| format!("it is not JSON: {error}"))
    }

    /// Returns the value under nested keys.
    pub(crate) fn get(&self, path: &[&str]) -> Option<Self> {
        self.at(path).cloned().map(Self)
    }

    pub(crate) fn is_object(&self) -> bool {
        self.0.is_object()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }

    pub(crate) fn number(&self, path: &[&str]) -> Option<i64> {
        self.at(path)?.as_i64()
    }

    pub(crate) fn float(&self, path: &[&str]) -> Option<f64> {
        self.at(path)?.as_f64()
    }

    pub(crate) fn flag(&self, path: &[&str]) -> Option<bool> {
        self.at(path)?.as_bool()
    }

    /// Returns a list of whole numbers.
    pub(crate) fn numbers(&self, path: &[&str]) -> Option<Vec<i64>> {
        self.at(path)?.as_array()?.iter().map(Value::as_i64).collect()
    }

    /// Returns the values of an object.
    pub(crate) fn values(&self) -> Vec<Self> {
        self.0.as_object().map(|object| object.values().cloned().map(Self).collect()).unwrap_or_default()
    }

    fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.0, |value, key| value.get(key))
    }
}
