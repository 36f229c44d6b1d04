//! The sources of API keys, and the places that must not contain them.

use crate::support::{Host, KEY, LiveService, TestEnvironment};

#[test]
fn a_key_comes_from_a_variable_a_file_or_a_command() {
    let service = LiveService::start("", "");
    let url = service.url();
    for source in [
        "key_env = \"LINKS_KEY\"".to_owned(),
        "key_file = \"key\"".to_owned(),
        format!("key_command = [\"echo\", \"{KEY}\"]"),
    ] {
        let environment = TestEnvironment::new()
            .variable("LINKS_KEY", KEY)
            .config(&format!("[accounts.main]\nurl = \"{url}\"\n{source}\n"))
            .file("key", &format!("{KEY}\n"))
            .mode("key", 0o600);
        environment.run(&["backup", "main", "-q"]).succeeds().stderr_is("");
    }
}

#[cfg(unix)]
#[test]
fn a_key_command_does_not_see_the_keys_of_other_accounts() {
    let service = LiveService::start("", "");
    let url = service.url();
    let script = format!("test -z \"$OTHER_KEY$HOOK_SECRET\" && test -n \"$PATH\" && echo {KEY}");
    let config = format!(
        "[accounts.main]\nurl = \"{url}\"\nkey_command = {}\n\
         [accounts.other]\nurl = \"{url}\"\nkey_env = \"OTHER_KEY\"\n\
         alerts = {{ webhook = \"https://hooks.example/x\", secret_env = \"HOOK_SECRET\" }}\n",
        serde_json::json!(["sh", "-c", script])
    );
    let environment = TestEnvironment::new()
        .variable("OTHER_KEY", "another-key")
        .variable("HOOK_SECRET", "another-secret")
        .config(&config);
    environment.run(&["backup", "main", "-q"]).succeeds().stderr_is("");
}

#[test]
fn a_key_file_that_others_can_read_causes_a_warning() {
    let service = LiveService::start("", "");
    let config = format!("[accounts.main]\nurl = \"{}\"\nkey_file = \"key\"\n", service.url());
    let environment = TestEnvironment::new().config(&config).file("key", KEY).mode("key", 0o644);
    environment.run(&["backup", "main", "-q"]).succeeds().stderr_is(
        "warning: HOME/key can be read by other users (mode 0644); run: chmod 600 HOME/key\n",
    );
}

#[test]
fn an_unavailable_key_is_reported_with_its_source() {
    let cases = [
        ("key_env = \"NO_SUCH\"", "error: the environment variable NO_SUCH is not set"),
        ("key_file = \"none\"", "error: cannot read the key file HOME/none: "),
        ("key_command = [\"false\"]", "error: the key command `false` failed (exit code 1)"),
        ("key_command = [\"no-such-tool\"]", "error: cannot run the key command `no-such-tool`"),
    ];
    for (source, message) in cases {
        let config = format!("[accounts.main]\nurl = \"http://127.0.0.1:9\"\n{source}\n");
        let ran = TestEnvironment::new().config(&config).run(&["backup", "main"]).exits_with(1);
        ran.stdout_is("").stderr_has(message);
    }
}

/// The open of a FIFO waits for a writer, and a device need not end.
#[cfg(unix)]
#[test]
fn a_fifo_or_a_device_in_place_of_a_file_is_refused_at_once() {
    use std::process::Command;
    let fifo = tempfile::tempdir().unwrap();
    let fifo = fifo.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let account = "[accounts.main]\nurl = \"https://127.0.0.1:9\"\n";
    for file in [&fifo.display().to_string(), "/dev/zero"] {
        let refuses = |environment: TestEnvironment, arguments: &[&str], said: &str| {
            environment.run(arguments).exits_with(1).stdout_is("").stderr_has(said);
        };
        let with_key = |more: &str| {
            let config = format!("{account}key_env = \"LINKS_KEY\"\n{more}");
            TestEnvironment::new().config(&config).variable("LINKS_KEY", KEY)
        };
        let why = "it is not a regular file";
        let config = format!("{account}key_file = \"{file}\"\n");
        let said = format!("cannot read the key file {file}: {why}");
        refuses(TestEnvironment::new().config(&config), &["backup", "main"], &said);
        let said = format!("cannot read the certificates in {file}: {why}");
        let by_config = with_key(&format!("ca_file = \"{file}\"\n"));
        refuses(by_config, &["backup", "main"], &said);
        let by_variable = with_key("").variable("SSL_CERT_FILE", file);
        refuses(by_variable, &["backup", "main"], &said);
        let apply = ["apply", "--to", "main", "--yes", "--password-file", file];
        refuses(with_key(""), &apply, &format!("cannot read {file}: {why}"));
        let apply = ["apply", file, "--to", "main", "--yes"];
        refuses(with_key(""), &apply, &format!("cannot read {file}: it is not a file"));
        let environment = with_key("");
        let config = environment.path("config.toml");
        std::fs::remove_file(&config).unwrap();
        std::os::unix::fs::symlink(file, &config).unwrap();
        refuses(environment, &["backup", "main"], why);
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_may_be_a_shell_pipe() {
    use std::process::Stdio;
    let service = LiveService::start("", "");
    let config =
        format!("[accounts.main]\nurl = \"{}\"\nkey_file = \"/dev/fd/0\"\n", service.url());
    let environment = TestEnvironment::new().config(&config);
    let mut echo = std::process::Command::new("echo");
    let mut echo = echo.arg(KEY).stdout(Stdio::piped()).spawn().unwrap();
    let mut backup = environment.command(&["backup", "main", "-q"]);
    let ended = backup.stdin(echo.stdout.take().unwrap()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    echo.wait().unwrap();
}

#[test]
fn a_wrong_key_ends_with_7_and_the_hint_about_dropped_headers() {
    for behaviour in ["", "bad-key=401", "bad-key=200", "authorization=dropped"] {
        let service = LiveService::start(behaviour, "");
        let environment =
            TestEnvironment::new().account(&service.url()).variable("LINKS_KEY", "another-key");
        let ran = environment.run(&["backup", "main"]).exits_with(7).stdout_is("");
        ran.stderr_has("the key was not accepted").stderr_has("drop the Authorization header");
        assert_eq!(service.request_count(), 1, "a wrong key is not tried twice");
        environment.run(&["doctor", "main"]).exits_with(7).stdout_has("fail key");
    }
}

#[test]
fn the_key_is_only_in_requests_to_its_own_host() {
    let service = LiveService::start("rate-limit=600", "html@/api/pixels");
    let environment = TestEnvironment::new().account(&service.url());
    for arguments in [
        &["backup", "main", "-vvv"][..],
        &["backup", "main", "--json", "-vvv", "--progress", "json"],
        &["diff", "main@latest", "main@live", "-vvv"],
        &["doctor", "main", "-vvv"],
        &["export", "main", "--to", "out", "-vvv"],
    ] {
        let bytes = environment.run(arguments).bytes();
        assert!(!holds_key(&bytes), "{arguments:?}: {}", String::from_utf8_lossy(&bytes));
    }
    no_file_holds_the_key(&environment);
}

#[test]
fn a_key_that_the_service_echoes_is_not_printed() {
    let echo = format!("{{\"error\":1,\"message\":\"Bearer {KEY} is not known here\"}}");
    let pages = [
        Host::page("403 Forbidden", "application/json", &echo),
        Host::page("400 Bad Request", "application/json", &echo),
        Host::page("200 OK", "text/html", &format!("<p>You sent {KEY}</p>")),
        Host::page("200 OK", &format!("text/{KEY}"), "no JSON"),
        Host::answering(format!(
            "HTTP/1.1 302 Found\r\nlocation: https://x.example/?key={KEY}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        )),
    ];
    for host in pages {
        let environment = TestEnvironment::new().account(&host.url());
        for command in [&["backup", "main", "-vvv"][..], &["doctor", "main", "-vvv", "--json"]] {
            let ran = environment.run(command);
            assert!(!holds_key(&ran.bytes()), "{}{}", ran.stdout(), ran.stderr());
        }
        assert!(host.received()[0].contains(KEY), "the host itself gets the key");
        no_file_holds_the_key(&environment);
    }
}

fn no_file_holds_the_key(environment: &TestEnvironment) {
    for (path, bytes) in environment.files() {
        assert!(!holds_key(&bytes), "{}", path.display());
    }
}

fn holds_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes())
}
