//! Listen addresses in Go's notation.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Listen address in Go's notation: `:8080`, `0.0.0.0:8080`, `[::1]:8080`, or `0` for no listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// No listener.
    Off,
    /// The address to listen on. Port 0 stands for any free port.
    At(SocketAddr),
}

impl BindAddress {
    /// Reports whether the port is 0. With port 0, the system assigns a different free port to each listener.
    pub fn is_any_port(self) -> bool {
        matches!(self, Self::At(address) if address.port() == 0)
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let full = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text.replace("localhost:", "127.0.0.1:")
        };
        full.parse()
            .map(Self::At)
            .map_err(|_| "must be HOST:PORT with an IP address, :PORT, or 0 to turn it off".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_in_go() {
        let cases = [
            (":8080", Some("0.0.0.0:8080")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("localhost:10351", Some("127.0.0.1:10351")),
            ("[::1]:9", Some("[::1]:9")),
            ("0", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map_or(BindAddress::Off, |address| {
                BindAddress::At(address.parse().unwrap())
            });
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!("8080".parse::<BindAddress>().is_err());
    }
}
