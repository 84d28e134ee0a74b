//! The API server alone, with no controllers and no nodes: `serve [ADDRESS:PORT [KUBECONFIG]]`.
//!
//! Writes a kubeconfig and prints its path, then serves until Ctrl-C or its end of input.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use base64::Engine as _;
use muster_apiserver::serve::serve;
use muster_apiserver::tls::Tls;
use muster_apiserver::{ApiServer, Options};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let path = arguments.next().unwrap_or_else(|| "serve.kubeconfig".to_owned());

    let listener = TcpListener::bind(&address).await?;
    let server = ApiServer::new(Options::system()?);
    let tls = Tls::generate(&[listener.local_addr()?.ip()])?;
    let handle = serve(listener, &server, Some(&tls))?;

    let authority = base64::engine::general_purpose::STANDARD.encode(tls.ca_pem());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: serve\nclusters:\n- name: serve\n  cluster:\n    server: https://{}\n    certificate-authority-data: {authority}\ncontexts:\n- name: serve\n  context:\n    cluster: serve\n    user: admin\nusers:\n- name: admin\n  user:\n    token: {}\n",
        handle.address(),
        server.token(),
    );
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    println!("{path}");

    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    handle.shutdown().await;
    Ok(())
}
