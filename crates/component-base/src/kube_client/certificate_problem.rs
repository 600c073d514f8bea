//! The problem of a server's certificate that made a request fail.

use std::error::Error;

use rustls::CertificateError;

/// The reason for which a client refused the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    /// The certificate has expired.
    Expired,
    /// The certificate is not trusted, for this reason.
    Refused(String),
}

impl CertificateProblem {
    /// Returns the problem that caused an error, or `None` if the error has another cause.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(rustls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
                return Some(Self::from_certificate_error(problem));
            }
            // The source of an I/O error is the source of the error that it contains.
            next = match error.downcast_ref::<std::io::Error>() {
                Some(io) => io
                    .get_ref()
                    .map(|inner| -> &(dyn Error + 'static) { inner }),
                None => error.source(),
            };
        }
        None
    }

    fn from_certificate_error(problem: &CertificateError) -> Self {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::Refused("it is not valid yet".to_owned())
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::Refused("it is not valid for the host of the address".to_owned())
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::Refused("no trusted authority has issued it".to_owned())
            }
            other => Self::Refused(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_problem_is_found_inside_io_errors() {
        let refused = |problem: CertificateError| {
            let inner = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::from(problem));
            let error = kube::Error::Service(io::Error::other(inner).into());
            CertificateProblem::of(&error)
        };
        assert_eq!(
            refused(CertificateError::Expired),
            Some(CertificateProblem::Expired)
        );
        let unknown = refused(CertificateError::UnknownIssuer);
        assert!(
            matches!(unknown, Some(CertificateProblem::Refused(why)) if why.contains("authority"))
        );
        let closed = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(
            CertificateProblem::of(&kube::Error::Service(closed.into())),
            None
        );
    }
}
