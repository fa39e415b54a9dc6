//! Who is answered: requests that were meant for the listener, with a key where it has any, that change nothing.

use reqwest::{Method, StatusCode};

use crate::support::{
    admin::{Question, get},
    host::{Host, SOON, Setup},
    turn::{Ask, ask},
};

/// Every address of the listener.
const PATHS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/openapi.json",
    "/api/tenants",
    "/api/tenants/default",
    "/api/agents",
    "/api/agents/default/echo",
    "/api/agents/default/echo/versions",
    "/api/usage",
    "/api/failures",
    "/api/failures/abcdefgh",
    "/api/limits",
    "/nowhere",
];

/// A key as `hostelry keys admin` makes it, and the line that it prints for the configuration.
async fn key(args: &[&str]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Host::program(dir.path());
    let output = program.args(["keys", "admin"]).args(args).output();
    let output = tokio::time::timeout(SOON, output).await.expect("it does not end").unwrap();
    assert!(output.status.success(), "{output:?}");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let line = err.lines().find(|line| line.starts_with("admin-keys = ")).unwrap_or_else(|| panic!("{err}"));
    assert!(!err.contains(out.trim()), "the key itself is on standard output alone");
    (out.trim().to_owned(), line.to_owned())
}

#[tokio::test]
async fn with_keys_nothing_but_the_pulse_is_told_without_one() {
    let (key, line) = key(&[]).await;
    let host = Setup::serving(&["echo"]).config(&format!("{line}\n")).start().await;
    for path in PATHS {
        let told = Question::new(&host, path).ask().await;
        if *path == "/healthz" {
            assert_eq!(told.status, StatusCode::OK);
            continue;
        }
        assert_eq!(
            (told.status, told.headers["www-authenticate"].as_bytes()),
            (StatusCode::UNAUTHORIZED, &b"Bearer"[..]),
            "{path}"
        );
        let error = told.error();
        let wrong = [format!("{key}0"), key.to_uppercase(), "hk_".to_owned(), String::new()];
        for wrong in wrong {
            let told = Question::new(&host, path).key(&wrong).ask().await;
            assert_eq!((told.status, told.error()), (StatusCode::UNAUTHORIZED, error.clone()), "{path} {wrong}");
        }
        let basic = Question::new(&host, path).header("authorization", &format!("Basic {key}")).ask().await;
        assert_eq!(basic.status, StatusCode::UNAUTHORIZED, "{path}");
        let told = Question::new(&host, path).key(&key).ask().await;
        let there = !matches!(*path, "/nowhere" | "/api/failures/abcdefgh");
        assert_eq!(told.status, if there { StatusCode::OK } else { StatusCode::NOT_FOUND }, "{path}");
        assert_eq!(told.headers["cache-control"], "no-store", "{path}");
    }
    let posted = Question::with(Method::POST, &host, "/api/usage").ask().await;
    assert_eq!(posted.status, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&host, "echo", "hi").await.text, "hi", "clients need no key of the operator's");
}

#[tokio::test]
async fn any_of_several_keys_opens_until_it_expires() {
    let ((old, old_line), (new, new_line)) = (key(&["--expires", "2days"]).await, key(&[]).await);
    assert!(old_line.contains("expires = "), "{old_line}");
    let inner = |line: &str| line.trim_start_matches("admin-keys = [").trim_end_matches(']').to_owned();
    let past = format!("{{ hash = \"sha256:{}\", expires = 2020-01-01 }}", digest("past"));
    let config = format!("admin-keys = [{}, {}, {past}]\n", inner(&old_line), inner(&new_line));
    let host = Setup::serving(&["echo"]).config(&config).start().await;
    for (key, status) in [(&*old, 200), (&*new, 200), ("past", 401)] {
        assert_eq!(Question::new(&host, "/api/usage").key(key).ask().await.status.as_u16(), status, "{key}");
    }
}

fn digest(key: &str) -> String {
    hostelry::ids::hex(&hostelry::tenants::digest(key))
}

#[tokio::test]
async fn a_name_that_somebody_pointed_here_is_refused_before_anything_else() {
    let (key, line) = key(&[]).await;
    let config = format!("{line}\nadmin-hosts = [\"ops.example\"]\n");
    let host = Setup::serving(&["echo"]).config(&config).start().await;
    for path in PATHS {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let led = Question::with(method, &host, path).key(&key).header("host", "evil.example").ask().await;
            assert_eq!(led.status, StatusCode::FORBIDDEN, "{path}");
            assert!(led.error().contains("the Host header names another machine"), "{led:?}");
            assert!(!led.headers.contains_key("access-control-allow-origin"), "{led:?}");
        }
    }
    for name in ["localhost", "127.0.0.1:1", "[::1]", "ops.example", "OPS.example:8081"] {
        let told = Question::new(&host, "/api/agents").key(&key).header("host", name).ask().await;
        assert_eq!(told.status, StatusCode::OK, "{name}");
    }
}

#[tokio::test]
async fn everything_is_only_to_be_read() {
    let host = Setup::serving(&["echo"]).start().await;
    for path in PATHS {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let told = Question::with(method.clone(), &host, path).ask().await;
            assert_eq!(told.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(told.headers["allow"], "GET, HEAD", "{method} {path}");
            assert_eq!(told.error(), "everything here is only to be read, with GET or HEAD");
        }
        let [head, get] = [Method::HEAD, Method::GET].map(|method| Question::with(method, &host, path).ask());
        let (head, get) = (head.await, get.await);
        assert_eq!((head.status, head.text.as_str()), (get.status, ""), "{path}");
    }
}

#[tokio::test]
async fn no_secret_and_no_word_of_a_user_is_in_any_answer() {
    let (admin_key, line) = key(&[]).await;
    let digests = [digest("tenant-key"), digest(&admin_key)];
    let config = format!("{line}\n[tenants.default]\nkeys = [\"sha256:{}\"]\ntools = [\"*\"]\n", digests[0]);
    let host = Setup::serving(&["puppet", "echo"]).config(&config).start().await;
    for end in ["chat blue-moon\nerr sorry", "chat blue-moon\ntrap", "chat blue-moon\nclosed"] {
        let ask = Ask::agent(&host, "puppet").key("tenant-key").user("alice-in-chains").conversation("purple-rain");
        let _answer = ask.text(end).answer().await;
    }
    let failures = Question::new(&host, "/api/failures").key(&admin_key).ask().await.json();
    let id = failures["failures"][0]["id"].as_str().unwrap_or_else(|| panic!("{failures}")).to_owned();
    let card = format!("/api/failures/{id}");
    for path in PATHS.iter().chain(&[card.as_str()]) {
        let told = Question::new(&host, path).key(&admin_key).ask().await;
        let secrets = ["tenant-key", &admin_key, "blue-moon", "alice-in-chains", "purple-rain"];
        for secret in secrets.into_iter().chain(digests.iter().map(String::as_str)) {
            assert!(!told.text.contains(secret), "{secret} is in {path}: {told:?}");
        }
    }
}

#[tokio::test]
async fn clients_reach_nothing_of_it() {
    let host = Setup::serving(&["echo"]).start().await;
    assert_eq!(get(&host, "/api/agents").await["agents"][0]["agent"], "echo");
    for path in PATHS.iter().filter(|path| !path.ends_with("yz") && !path.ends_with("hz")) {
        let told = reqwest::get(host.http(path)).await.unwrap();
        assert_eq!(told.status(), StatusCode::NOT_FOUND, "{path}");
    }
}
