//! The page: the data, and the script that shows it.

use serde::Serialize;
use tensorfile::Tensor;
use tensorfile::digest::Digest;

use crate::exit::Failure;
use crate::output::json;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/elements.js"),
    "\n",
    include_str!("page/models.js"),
    "\n",
    include_str!("page/table.js"),
    "\n",
    include_str!("page/summary.js"),
    "\n",
    include_str!("page/bytes.js"),
    "\n",
    include_str!("page/modules.js"),
    "\n",
    include_str!("page/tensors.js"),
    "\n",
    include_str!("page/details.js"),
    "\n",
    include_str!("page/differences.js"),
    "\n",
    include_str!("page/start.js"),
);

/// Returns the page with this data.
///
/// The browser runs only scripts that have the nonce, which is the digest of the data. So no name in the data can
/// contain it, even if the name was made to be run.
pub fn page(data: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    json::write_for_html(&mut text, data)?;
    let nonce = Tensor::from_slice(&text, [text.len()]).map(|bytes| Digest::new(&bytes.as_view()).to_string());
    let nonce = nonce.map_err(Failure::usage)?;
    let template = TEMPLATE.replace("{nonce}", &nonce).replace("{style}", STYLE).replace("{script}", SCRIPT);
    let (before, after) = template.split_once("{data}").expect("the template has a place for the data");
    Ok([before.as_bytes(), &text, after.as_bytes()].concat())
}
