//! `berth up --data-dir`: what is there after the process was killed, what it costs, and when it refuses to start.

mod crash;
mod folder;
mod memory;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::program::{Up, berth};

/// Longer than anything here should take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// A home, a port and flags that outlive the process.
struct Place {
    home: Arc<tempfile::TempDir>,
    flags: Vec<String>,
}

impl Place {
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

    /// A client by the kubeconfig as it is now.
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
