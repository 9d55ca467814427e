//! Profiles of the AWS command line: keys, region and endpoint in `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use configparser::ini::Ini;

/// The settings of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// The access key id and the secret access key.
    pub(super) keys: Option<(String, String)>,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

type Settings = HashMap<String, Option<String>>;

/// Settings of profiles whose keys come from elsewhere.
const OTHER_KINDS: [&str; 6] =
    ["sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file", "login_session"];

impl Profile {
    /// Reads the profile of `AWS_PROFILE`, or else `default`.
    ///
    /// A profile without keys is an error if `needs_keys`, and it has them from elsewhere, or was asked for by name.
    pub(super) fn load(needs_keys: bool) -> Result<Self, String> {
        let asked = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = asked.as_deref().unwrap_or("default");
        let credentials = read("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let config = read("AWS_CONFIG_FILE", "config")?;
        Self::from_files(name, asked.is_some(), needs_keys, &credentials, &config)
    }

    fn from_files(
        name: &str,
        is_asked_for: bool,
        needs_keys: bool,
        credentials: &HashMap<String, Settings>,
        config: &HashMap<String, Settings>,
    ) -> Result<Self, String> {
        let in_config = if name == "default" { config.get(name) } else { config.get(&format!("profile {name}")) };
        let sections: Vec<&Settings> = credentials.get(name).into_iter().chain(in_config).collect();
        if sections.is_empty() && is_asked_for {
            return Err(format!("AWS_PROFILE is `{name}`, but neither file of ~/.aws has this profile"));
        }
        let get = |key: &str| sections.iter().find_map(|section| section.get(key)?.clone());
        let keys = get("aws_access_key_id").zip(get("aws_secret_access_key"));
        if keys.is_none()
            && needs_keys
            && let Some(kind) = OTHER_KINDS.into_iter().find(|key| get(key).is_some())
        {
            return Err(format!(
                "the profile `{name}` of ~/.aws has `{kind}` instead of keys; first run \
                 `eval \"$(aws configure export-credentials --profile {name} --format env)\"`"
            ));
        }
        let token = get("aws_session_token");
        Ok(Self { keys, token, region: get("region"), endpoint: get("endpoint_url") })
    }
}

/// Reads a file of `~/.aws`, or the one that a variable names. A missing file is empty.
fn read(variable: &str, name: &str) -> Result<HashMap<String, Settings>, String> {
    let in_home = || env::home_dir().map(|home| home.join(".aws").join(name));
    let Some(path) = env::var_os(variable).map(PathBuf::from).or_else(in_home) else { return Ok(HashMap::new()) };
    match fs::read_to_string(&path) {
        Ok(text) => parse(text).map_err(|error| format!("{}: {error}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashMap::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn parse(text: String) -> Result<HashMap<String, Settings>, String> {
    let mut ini = Ini::new_cs();
    // A `#` or `;` within a value belongs to it.
    ini.set_inline_comment_symbols(Some(&[]));
    // Settings of a service are indented below it; those of the profile are not.
    ini.set_multiline(true);
    ini.read(text).map(|sections| sections.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = AKID
aws_secret_access_key = se/cr+et=#;
[work]
aws_access_key_id=WORK
aws_secret_access_key=other
aws_session_token = token
";

    const CONFIG: &str = "\
# a comment
[default]
region = eu-west-1
s3 =
    max_concurrent_requests = 20
    region = nested
[profile work]
region=eu-north-1
endpoint_url = http://localhost:9000
[profile login]
sso_session = mine
region = us-west-2
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
";

    fn profile(name: &str, is_asked_for: bool, needs_keys: bool) -> Result<Profile, String> {
        let (credentials, config) = (parse(CREDENTIALS.to_owned()).unwrap(), parse(CONFIG.to_owned()).unwrap());
        Profile::from_files(name, is_asked_for, needs_keys, &credentials, &config)
    }

    #[test]
    fn both_files_make_a_profile() {
        let some = |text: &str| Some(text.to_owned());
        let keys = Some(("AKID".to_owned(), "se/cr+et=#;".to_owned()));
        assert_eq!(
            profile("default", false, true),
            Ok(Profile { keys, token: None, region: some("eu-west-1"), endpoint: None })
        );
        let keys = Some(("WORK".to_owned(), "other".to_owned()));
        let endpoint = some("http://localhost:9000");
        assert_eq!(
            profile("work", true, true),
            Ok(Profile { keys, token: some("token"), region: some("eu-north-1"), endpoint })
        );
    }

    #[test]
    fn profiles_without_keys_name_the_command_to_run() {
        assert_eq!(
            profile("login", true, true).unwrap_err(),
            "the profile `login` of ~/.aws has `sso_session` instead of keys; first run \
             `eval \"$(aws configure export-credentials --profile login --format env)\"`"
        );
        assert!(profile("role", true, true).unwrap_err().contains("`role_arn`"));
        let region = Some("us-west-2".to_owned());
        assert_eq!(profile("login", true, false), Ok(Profile { region, ..Profile::default() }), "keys are elsewhere");
        assert_eq!(
            profile("none", true, false).unwrap_err(),
            "AWS_PROFILE is `none`, but neither file of ~/.aws has this profile"
        );
        assert_eq!(profile("none", false, true), Ok(Profile::default()));
    }
}
