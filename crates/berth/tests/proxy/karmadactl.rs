//! karmadactl.
