//! When plugins are run and files are read, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn start() -> Timestamp {
    Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
}

/// Credentials whose plugin takes 20 s for the token `t1`, then `t2` and so on, each good for an hour; how often it was
/// run. Its third run fails.
fn of_a_plugin() -> (Arc<Credentials>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let clock = Clock::starting_at(start());
    let run: Runner = Box::new(move |_| {
        let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            if run == 3 {
                return Err(CredentialsError("no".to_owned()));
            }
            let expires = Some(clock.now().plus_nanos(3_600_000_000_000));
            Ok(Secrets { token: Some(format!("t{run}")), certificate: None, expires })
        }
        .boxed()
    });
    let auth = AuthInfo { exec: Some(ExecConfig::default()), ..AuthInfo::default() };
    (Arc::new(Credentials { run, ..Credentials::new(auth, clock) }), runs)
}

/// The bearer token of the credentials as they are now.
async fn token(credentials: &Arc<Credentials>) -> String {
    let auth = credentials.current().await.unwrap();
    assert!(auth.exec.is_none(), "nothing is left to be run");
    serde_json::to_value(&*auth).unwrap()["token"].as_str().unwrap().to_owned()
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_plugin_is_run_once_for_all_who_ask_and_again_when_its_credentials_expire() {
    let (credentials, runs) = of_a_plugin();
    assert!(credentials.now().is_none());
    // One who does not wait for it does not end it.
    let impatient = tokio::time::timeout(Duration::from_secs(5), credentials.current()).await;
    assert!(impatient.is_err());
    let asking = (0..10).map(|_| token(&credentials));
    assert_eq!(futures::future::join_all(asking).await, vec!["t1"; 10]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(3_599)).await;
    assert_eq!((token(&credentials).await.as_str(), runs.load(Ordering::SeqCst)), ("t1", 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((token(&credentials).await.as_str(), runs.load(Ordering::SeqCst)), ("t2", 2));
    // The third run fails: all requests that wait for it get the error, and the next one tries again.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let (one, other) = tokio::join!(credentials.current(), credentials.current());
    assert_eq!((one.unwrap_err(), runs.load(Ordering::SeqCst)), (other.unwrap_err(), 3));
    assert_eq!(token(&credentials).await, "t4");
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_401_runs_the_plugin_again_but_not_over_and_over() {
    let (credentials, runs) = of_a_plugin();
    let first = credentials.current().await.unwrap();
    credentials.refused(&first);
    assert_eq!(token(&credentials).await, "t1", "they are new");
    tokio::time::sleep(SETTLED).await;
    assert_eq!(token(&credentials).await, "t2");
    // A late refusal of earlier credentials says nothing about the current ones.
    credentials.refused(&first);
    tokio::time::sleep(SETTLED).await;
    assert_eq!((token(&credentials).await.as_str(), runs.load(Ordering::SeqCst)), ("t2", 2));
    // Where it fails, what is not known to be bad for good stays.
    credentials.refused(&credentials.current().await.unwrap());
    assert_eq!((token(&credentials).await.as_str(), runs.load(Ordering::SeqCst)), ("t2", 3));
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn certificate_files_are_read_again_each_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let write = |text: &str| {
        std::fs::write(path("crt"), text).unwrap();
        std::fs::write(path("key"), text).unwrap();
    };
    let (client_certificate, client_key) = (Some(path("crt")), Some(path("key")));
    let auth = AuthInfo { client_certificate, client_key, ..AuthInfo::default() };
    let credentials = Arc::new(Credentials::new(auth, Clock::starting_at(start())));
    assert!(credentials.current().await.is_err(), "not there yet");
    write("one");
    let first = credentials.current().await.unwrap();
    assert_eq!(first.client_certificate_data, Some(BASE64_STANDARD.encode("one")));
    tokio::time::sleep(RELOAD).await;
    assert!(Arc::ptr_eq(&first, &credentials.current().await.unwrap()), "unchanged");
    write("two");
    assert!(Arc::ptr_eq(&first, &credentials.current().await.unwrap()), "not before its time");
    tokio::time::sleep(RELOAD).await;
    let second = credentials.current().await.unwrap();
    assert_eq!(second.client_certificate_data, Some(BASE64_STANDARD.encode("two")));
    std::fs::remove_file(path("key")).unwrap();
    tokio::time::sleep(RELOAD).await;
    assert!(Arc::ptr_eq(&second, &credentials.current().await.unwrap()), "what is known stays");
    // A 401 makes the files be read before their time.
    write("three");
    credentials.refused(&second);
    tokio::time::sleep(SETTLED).await;
    let third = credentials.current().await.unwrap();
    assert_eq!(third.client_certificate_data, Some(BASE64_STANDARD.encode("three")));
}

/// A file is written in two steps by many: what is empty for a moment is no token.
///
/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_each_minute_without_the_space_around_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token").to_string_lossy().into_owned();
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let auth = AuthInfo { token_file: Some(path.clone()), ..AuthInfo::default() };
    let credentials = Arc::new(Credentials::new(auth.clone(), Clock::starting_at(start())));
    assert!(credentials.current().await.is_err(), "not there yet");
    write("\n");
    assert_eq!(credentials.current().await.unwrap_err(), CredentialsError(format!("{path} has no token")));
    write("one\n");
    assert_eq!(token(&credentials).await, "one");
    assert_eq!(credentials.current().await.unwrap().token_file, None, "nothing is left to be read");
    for unusable in ["", "\n"] {
        write(unusable);
        tokio::time::sleep(RELOAD).await;
        assert_eq!(token(&credentials).await, "one", "what is known stays");
    }
    write(" two ");
    assert_eq!(token(&credentials).await, "one", "not before its time");
    tokio::time::sleep(RELOAD).await;
    assert_eq!(token(&credentials).await, "two");
    std::fs::remove_file(&path).unwrap();
    tokio::time::sleep(RELOAD).await;
    assert_eq!(token(&credentials).await, "two", "what is known stays");
    // A 401 makes it be read before its time.
    write("three");
    credentials.refused(&credentials.current().await.unwrap());
    tokio::time::sleep(SETTLED).await;
    assert_eq!(token(&credentials).await, "three");
    // One that is given inline is used until the file has been read.
    let auth = AuthInfo { token: Some("inline".to_owned().into()), ..auth };
    let credentials = Arc::new(Credentials::new(auth, Clock::starting_at(start())));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(token(&credentials).await, "inline");
    for (text, expected) in [("four", "four"), ("", "four")] {
        write(text);
        tokio::time::sleep(RELOAD).await;
        assert_eq!(token(&credentials).await, expected);
    }
}

/// A token that no header can carry is an error as any other, wherever it comes from, and is not quoted.
///
/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_sent_is_refused_and_the_one_before_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let of = |auth: AuthInfo| Arc::new(Credentials::new(auth, Clock::starting_at(start())));
    let refused = |found: Result<Arc<AuthInfo>, CredentialsError>| {
        let error = found.expect_err("it cannot be sent").to_string();
        assert!(error.contains("no header can carry") && !error.contains("abc"), "{error}");
    };
    let file = || Some(path.to_string_lossy().into_owned());
    for bad in ["abc\n", "abc\u{1}def", "abc\ndef"] {
        refused(of(AuthInfo { token: Some(bad.to_owned().into()), ..AuthInfo::default() }).current().await);
        // Beside a file that has none either.
        std::fs::write(&path, "abc\u{1}def").unwrap();
        let auth = AuthInfo { token: Some(bad.to_owned().into()), token_file: file(), ..AuthInfo::default() };
        refused(of(auth).current().await);
        let said = bad.to_owned();
        let run: Runner = Box::new(move |_| {
            let token = Some(said.clone());
            async move { Ok(Secrets { token, ..Secrets::default() }) }.boxed()
        });
        let auth = AuthInfo { exec: Some(ExecConfig::default()), ..AuthInfo::default() };
        let plugin = Credentials { run, ..Credentials::new(auth, Clock::starting_at(start())) };
        refused(Arc::new(plugin).current().await);
    }
    // White space around it is none of it.
    std::fs::write(&path, "first\n").unwrap();
    let credentials = of(AuthInfo { token_file: file(), ..AuthInfo::default() });
    assert_eq!(token(&credentials).await, "first");
    std::fs::write(&path, "abc\u{1}def\n").unwrap();
    tokio::time::sleep(RELOAD).await;
    assert_eq!(token(&credentials).await, "first");
}
