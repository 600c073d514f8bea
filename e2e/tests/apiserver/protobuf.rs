//! An encoder of Kubernetes protobuf request bodies in the format of Go clients.

/// Media type of protobuf bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Encodes a length-delimited protobuf field.
pub(crate) fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = body.len();
    while length > 127 {
        out.push(u8::try_from(length & 127).unwrap() | 128);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend(body);
    out
}

/// Encodes a request body: the prefix `k8s` and an `Unknown` message. `raw` is the encoded object.
pub(crate) fn message(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let unknown = [
        field(1, &types),
        field(2, raw),
        field(3, b""),
        field(4, b""),
    ]
    .concat();
    [b"k8s\0".to_vec(), unknown].concat()
}
