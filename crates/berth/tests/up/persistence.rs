//! Tests of `berth up --data-dir`, which stores all objects in a folder.

mod crash;
mod folder;
mod formats;
mod memory;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::program::{Up, berth};

/// Timeout of each wait. It is long because the machine runs other tests at the same time.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The home folder, the port and the flags of a `berth up` that a test starts several times.
struct Installation {
    home: Arc<tempfile::TempDir>,
    flags: Vec<String>,
}

impl Installation {
    fn new(flags: &[&str]) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        let data = home.path().join("data");
        let mut all = vec![
            "up".to_owned(),
            format!("--port={port}"),
            format!("--data-dir={}", data.display()),
        ];
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        Self { home, flags: all }
    }

    fn arguments(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    fn start(&self) -> Up {
        let command = berth(self.home.path(), &self.arguments());
        Up::with(self.home.clone(), command)
    }

    /// Returns a client for the kubeconfig that the last `berth up` has written.
    async fn client(&self) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let path = self.home.path().join(".berth/kubeconfig");
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        Client::try_from(config).unwrap()
    }
}
