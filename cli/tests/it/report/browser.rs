//! Opens pages in Chromium, found in the path or named by `$CHROMIUM`.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tensorfile::{Format, TensorMap, WriteOptions};

use super::super::{Session, skipped, weights};
use super::{data, large_model, page, write_hole};

/// The page and the messages of a browser.
struct Opened {
    dom: String,
    messages: String,
}

impl Opened {
    /// Returns the result that the script of the test wrote.
    fn result(&self) -> Value {
        let (_, rest) =
            self.dom.split_once(r#"<pre id="result">"#).unwrap_or_else(|| panic!("no result: {}", self.messages));
        let text = rest.split_once("</pre>").unwrap().0;
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&text).unwrap()
    }
}

/// Returns the browser, if there is one that works.
fn browser() -> Option<OsString> {
    let found = std::env::var_os("CHROMIUM").or_else(|| {
        let paths = std::env::var_os("PATH")?;
        let programs = ["chromium", "chromium-browser", "google-chrome"];
        let mut found = std::env::split_paths(&paths).flat_map(|path| programs.map(|name| path.join(name)));
        found.find(|path| path.is_file()).map(PathBuf::into_os_string)
    });
    let Some(browser) = found else {
        skipped(
            "there is no Chromium; tests/interop/setup.sh --chromium installs it on Debian, and $CHROMIUM can name it",
        );
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page.html"), "<p>it works").unwrap();
    let opened = open(&browser, &folder.path().join("page.html"));
    if !opened.dom.contains("<p>it works") {
        let what = opened.messages;
        skipped(format_args!("{} does not open pages; $CHROMIUM can name another: {what}", browser.display()));
        return None;
    }
    Some(browser)
}

fn open(browser: &OsString, page: &Path) -> Opened {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=10000", "--window-size=1400,1000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(format!("file://{}", page.display()));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let (dom, messages) = (read(Box::new(child.stdout.take().unwrap())), read(Box::new(child.stderr.take().unwrap())));
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Opened { dom: dom.join().unwrap(), messages: messages.join().unwrap() }
}

/// Opens a page, runs a script after the page's own, and returns its result.
fn run(browser: &OsString, session: &Session, page: &str, script: &str) -> Value {
    let start = page.find("'nonce-").unwrap() + "'nonce-".len();
    let nonce = &page[start..start + 64];
    let script = format!(
        "<script nonce={nonce}>(async () => {{
            const rows = () => [...document.querySelectorAll('[role=treegrid] .body .row')];
            const names = () => rows().map((row) => row.querySelector('.name').textContent);
            const button = (text) => [...document.querySelectorAll('button')].find((one) => one.textContent === text);
            const search = (text) => {{
                const input = document.querySelector('input[type=search]');
                input.value = text;
                input.dispatchEvent(new Event('input'));
            }};
            const key = (target, name) => target.dispatchEvent(new KeyboardEvent('keydown', {{ key: name, bubbles: true, cancelable: true }}));
            const text = (selector) => document.querySelector(selector).textContent;
            let found;
            try {{ found = await (async () => {{ {script} }})(); }} catch (error) {{ found = {{ error: String(error.stack) }}; }}
            const result = document.createElement('pre');
            result.id = 'result';
            result.textContent = JSON.stringify(found);
            document.body.replaceChildren(result);
        }})();</script></body>"
    );
    let path = session.path("opened.html");
    fs::write(&path, page.replace("</body>", &script)).unwrap();
    let opened = open(browser, &path);
    let messages: Vec<&str> = opened.messages.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(messages.is_empty(), "{messages:#?}");
    let result = opened.result();
    assert_eq!(result.get("error"), None, "{result:#}");
    result
}

#[test]
fn opens_without_messages() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    session.write("none.ten", &TensorMap::new());
    super::super::unknown::write(&session, "new.safetensors", 1);
    for files in
        [&["model.ptd"][..], &["sparse.btf"], &["none.ten"], &["new.safetensors"], &["model.ptd", "sparse.btf"]]
    {
        page(&session, files);
        let opened = open(&browser, &session.path("page.html"));
        assert!(!opened.messages.contains("CONSOLE"), "{files:?}: {}", opened.messages);
        assert!(opened.dom.contains("Written by tensorfile "), "{files:?}");
        // The document itself has no element of the data but texts.
        assert!(!opened.dom.contains("<img") && !opened.dom.contains("onerror"));
    }
}

#[test]
fn search_folding_and_zooming_work() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    let page = page(&session, &["model.ptd"]);
    let found = run(
        &browser,
        &session,
        &page,
        "const found = {};
        found.first = names();
        const layer = rows().find((row) => row.querySelector('.name').title === 'encoder.layer');
        layer.querySelector('.fold').click();
        found.folded = names();
        button('Unfold all').click();
        found.unfolded = names().length;
        button('Fold all').click();
        found.top = names();
        search('ATTENTION bias');
        found.searched = rows().map((row) => row.querySelector('.name').title).filter((name) => name.endsWith('bias'));
        found.status = text('.status');
        search('nothing like it');
        found.nothing = text('.grid .body');
        search('');
        button('Table').click();
        found.table = names().length;
        const title = (name) => [...document.querySelectorAll('.titles button')].find((one) => one.textContent.startsWith(name));
        title('size').click();
        found.largest = names()[0];
        title('size').click();
        found.smallest = names()[0];
        rows()[2].click();
        found.details = text('.detail h2');
        found.picked = document.querySelectorAll('.row.picked').length;
        key(document.querySelector('[role=treegrid]'), 'ArrowDown');
        found.next = text('.detail h2') === names()[3];
        title('size').click();
        button('Tree').click();
        button('Unfold all').click();
        const steps = ['Home', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'ArrowRight'];
        found.steps = steps.map((step) => { key(document.querySelector('[role=treegrid]'), step); return names().length; });
        found.module = text('.row.picked .name');
        key(document.body, '/');
        found.focused = document.activeElement.type;
        const tiles = () => [...document.querySelectorAll('.tile')].map((tile) => tile.textContent);
        found.tiles = tiles().some((text) => text.startsWith('embed.weight'));
        document.querySelector('.tile[role=button][aria-label^=\"encoder.layer:\"]').click();
        found.crumbs = text('.crumbs');
        found.zoomed = tiles().some((text) => text.startsWith('embed.weight'));
        key(document.querySelector('.tile'), 'Escape');
        found.out = text('.crumbs');
        const strip = document.querySelector('canvas.strip');
        key(strip, 'ArrowRight');
        found.header = text('.strips + .hover');
        key(strip, 'ArrowRight');
        found.second = text('.strips + .hover');
        const before = getComputedStyle(document.body).backgroundColor;
        document.querySelector('.bar .quiet').click();
        found.theme = before !== getComputedStyle(document.body).backgroundColor;
        return found;",
    );
    let of = |key: &str| {
        found[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("first")[..4], ["embed.weight", "▼encoder.layer", "▼0.attention", "weight"]);
    assert_eq!((of("folded").len(), of("first").len()), (8, 17));
    assert_eq!((&found["unfolded"], of("top").len()), (&17.into(), 8));
    let biases = [0, 1, 2].map(|layer| format!("encoder.layer.{layer}.attention.bias"));
    assert_eq!(of("searched"), biases);
    assert!(found["status"].as_str().unwrap().starts_with("3 of 13 tensors"), "{}", found["status"]);
    assert_eq!((&found["nothing"], &found["table"]), (&"No tensor matches.".into(), &13.into()));
    assert_eq!((&found["largest"], &found["smallest"]), (&"embed.weight".into(), &"none".into()));
    assert_eq!((&found["picked"], &found["next"], &found["focused"]), (&1.into(), &true.into(), &"search".into()));
    assert_eq!(found["steps"], serde_json::json!([17, 17, 8, 17, 17]));
    assert_eq!(found["module"], "▼encoder.layer");
    assert!(!found["details"].as_str().unwrap().is_empty());
    assert_eq!((&found["tiles"], &found["zoomed"], &found["theme"]), (&true.into(), &false.into(), &true.into()));
    assert_eq!((&found["crumbs"], &found["out"]), (&"all modules›encoder.layer".into(), &"all modules".into()));
    assert!(
        found["header"].as_str().unwrap().ends_with("before the first payload: header or index"),
        "{}",
        found["header"]
    );
    assert!(found["second"].as_str().unwrap().contains("[100, 30]: bytes "), "{}", found["second"]);
}

#[test]
fn details_have_figures() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    let script = "const found = {};
        for (const wanted of ['halves', 'none', 'packed', 'embed.weight']) {
            pick(models[0], models[0].rows.findIndex((row) => row.name === wanted));
            const canvas = document.querySelector('.figure canvas');
            const colors = new Set();
            if (canvas) {
                const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                for (let at = 0; at < pixels.length; at += 4) colors.add(pixels.slice(at, at + 3).join());
            }
            found[wanted] = {
                part: text('.detail .part'), bars: document.querySelectorAll('.figure rect.count').length,
                cells: canvas && [canvas.width, canvas.height], colors: colors.size, bad: document.querySelectorAll('.stats .bad').length,
                legend: canvas && text('.figure .legend'),
            };
        }
        return found;";
    let found = run(&browser, &session, &page(&session, &["model.ptd", "--sample", "4KiB"]), script);
    let of = |name: &str, key: &str| found[name][key].clone();
    assert_eq!(of("halves", "part"), "All 4 elements were read.");
    assert_eq!((of("halves", "bad"), of("halves", "legend")), (2.into(), "has NaN or infinity".into()));
    assert_eq!((of("halves", "cells"), of("halves", "colors")), (serde_json::json!([4, 1]), 3.into()));
    assert_eq!((of("none", "part"), of("none", "bars")), ("The tensor has no elements.".into(), 0.into()));
    assert_eq!(of("packed", "part"), "The elements are packed or uninterpreted bits, not numbers.");
    let sample = of("embed.weight", "part");
    assert!(sample.as_str().unwrap().starts_with("A sample: "), "{sample}");
    assert!(sample.as_str().unwrap().contains(" of 3,000 elements ("), "{sample}");
    assert!(of("embed.weight", "bars").as_u64().unwrap() > 20 && of("embed.weight", "colors").as_u64().unwrap() > 20);
}

#[test]
fn hostile_names_are_texts() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    let names = [
        "</script><img src=x onerror=\"window.evil=1\">",
        "<svg onload=window.evil=1>",
        "\u{202e}txet\u{1b}[2J",
        "a.__proto__.b",
        "constructor",
        "",
    ];
    let map: TensorMap = names.iter().map(|name| (*name, weights(&[2]))).collect();
    let metadata = names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
    let bytes = Format::named("safetensors").unwrap().to_vec(&map, &WriteOptions::new().metadata(metadata)).unwrap();
    fs::write(session.path("names.safetensors"), bytes).unwrap();
    let script = "const found = {};
        button('Unfold all').click();
        found.titles = rows().map((row) => row.querySelector('.name').title);
        for (const row of models[0].rows) pick(models[0], row.at);
        await new Promise((done) => setTimeout(done, 50));
        found.evil = window.evil === undefined;
        found.elements = document.querySelectorAll('img, svg[onload]').length;
        found.controls = /[\\u0000-\\u0009\\u000b-\\u001f\\u202e]/.test(document.querySelector('main').textContent);
        found.scripts = document.scripts.length;
        return found;";
    let found = run(&browser, &session, &page(&session, &["names.safetensors"]), script);
    let titles: Vec<&str> = found["titles"].as_array().unwrap().iter().map(|title| title.as_str().unwrap()).collect();
    assert!(
        titles.contains(&names[0]) && titles.contains(&"\\u{202e}txet\\u{1b}[2J") && titles.contains(&names[3]),
        "{titles:?}"
    );
    assert_eq!((&found["evil"], &found["elements"], &found["controls"]), (&true.into(), &0.into(), &false.into()));
    assert_eq!(found["scripts"], 3);
}

#[test]
fn differences_can_be_searched_and_opened() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    let mut other = super::super::model();
    other.insert("head.weight", weights(&[4, 17]));
    other.insert("embed.weight", weights(&[30, 100]));
    other.insert("new", weights(&[3]));
    session.write("other.ptd", &other);
    let script = "const found = {};
        found.title = text('h1');
        found.all = names();
        search('head');
        found.searched = names();
        search('');
        button('only in B 1').click();
        found.only = names();
        rows()[0].click();
        rows()[0].dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));
        found.tab = text('.tab[aria-selected=true]');
        found.details = text('.detail h2');
        found.difference = [...document.querySelectorAll('.pairs dd')].at(-1).textContent;
        document.querySelector('[data-tab=\"0\"]').click();
        found.other = text('h1');
        return found;";
    let found = run(&browser, &session, &page(&session, &["model.ptd", "other.ptd"]), script);
    assert_eq!(found["title"], "The files differ");
    assert_eq!(found["all"], serde_json::json!(["~embed.weight", "~head.weight", "+new"]));
    assert_eq!(
        (&found["searched"], &found["only"]),
        (&serde_json::json!(["~head.weight"]), &serde_json::json!(["+new"]))
    );
    assert_eq!(
        (&found["tab"], &found["details"], &found["difference"]),
        (&"B: other.ptd".into(), &"new".into(), &"only in B".into())
    );
    assert_eq!(found["other"], "model.ptd");
}

#[test]
fn large_files_have_few_elements() {
    let Some(browser) = browser() else { return };
    let session = Session::new();
    let many: Vec<_> = (0..100_000).map(|at| (format!("block.{}.{at}", at / 100), "F32", [1, 1])).collect();
    if !write_hole(&session, "large.safetensors", &large_model()) || !write_hole(&session, "many.safetensors", &many) {
        skipped("this file system has no holes, so no large model is tried; $TMPDIR can name a folder on one that has");
        return;
    }
    let script = "const found = { elements: document.querySelectorAll('*').length };
        button('Unfold all').click();
        document.querySelector('.grid').scrollTop = 1e6;
        document.querySelector('.grid').dispatchEvent(new Event('scroll'));
        found.below = names().length;
        found.scrolled = Number(rows()[0].getAttribute('aria-rowindex'));
        search('3');
        found.unfolded = document.querySelectorAll('*').length;
        found.facts = text('.facts');
        return found;";
    for (file, parameters) in [("large.safetensors", "70.6 B"), ("many.safetensors", "100 K")] {
        let page = page(&session, &[file, "--charts", "2", "--sample", "64KiB"]);
        let found = run(&browser, &session, &page, script);
        assert!(found["facts"].as_str().unwrap().contains(parameters), "{found}");
        for key in ["elements", "unfolded"] {
            assert!(found[key].as_u64().unwrap() < 15_000, "{file}: {found}");
        }
        let below = found["below"].as_u64().unwrap();
        assert!(below > 10 && below < 60 && found["scrolled"].as_u64().unwrap() > 500, "{file}: {found}");
    }
    assert_eq!(
        data(&session, &["many.safetensors", "--no-values"])["files"][0]["tensors"].as_array().unwrap().len(),
        100_000
    );
}
