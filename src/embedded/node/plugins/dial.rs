//! Calls to a registration socket exactly as a kubelet's: with the percent-encoded path as `:authority`.
//!
//! A kubelet dials the bare path (`operation_generator.go`, `dial`), so grpc-go sends that path, percent-encoded, as
//! `:authority`. Servers of grpc-go take any; those built on the h2 crate (tonic) reset the stream, unless the file's
//! name has an `@` that makes the encoded part a user name. A driver that could never register with a real kubelet
//! must not do so here, and `http::Uri` cannot hold such an authority: hence these few frames of HTTP/2 by hand. Only
//! what two small unary calls need (RFC 9113; header fields are written as literals, RFC 7541, and never read).

use std::path::Path;

use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The longest frame that a server may send unless told otherwise.
const MAX_FRAME: usize = 16_384;
/// The longest answer that is read; a plugin's introduction has a few hundred bytes.
const MAX_ANSWER: usize = 32_768;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// Error codes of RFC 9113, section 7.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// A connection to a registration socket. After a failed call it is of no more use.
#[derive(Debug)]
pub(super) struct Dialled {
    stream: UnixStream,
    authority: String,
    next: u32,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Dialled {
    /// Connects.
    pub(super) async fn connect(socket: &Path) -> std::io::Result<Dialled> {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(PREFACE).await?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        Ok(Dialled { stream, authority: authority(&socket.to_string_lossy()), next: 1 })
    }

    /// One unary call; the error is worded as grpc-go words it.
    pub(super) async fn call<A: Message + Default>(&mut self, path: &str, request: &impl Message) -> Result<A, String> {
        let unavailable = |error: std::io::Error| format!("rpc error: code = Unavailable desc = error reading from server: {error}");
        let stream = self.next;
        self.next += 2;
        let message = request.encode_to_vec();
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
        body.extend_from_slice(&message);
        let mut out = frame(HEADERS, END_HEADERS, stream, &headers(path, &self.authority));
        out.extend(frame(DATA, END_STREAM, stream, &body));
        self.stream.write_all(&out).await.map_err(unavailable)?;

        let mut answer = Vec::new();
        loop {
            let frame = self.read().await.map_err(unavailable)?;
            match frame.kind {
                SETTINGS | PING if frame.flags & ACK == 0 => {
                    let payload = if frame.kind == PING { frame.payload.as_slice() } else { &[] };
                    let ack = self::frame(frame.kind, ACK, 0, payload);
                    self.stream.write_all(&ack).await.map_err(unavailable)?;
                }
                GOAWAY => return Err("rpc error: code = Unavailable desc = closing transport due to: connection error".to_owned()),
                RST_STREAM if frame.stream == stream => {
                    let code = frame.payload.get(3).and_then(|code| CODES.get(usize::from(*code))).copied().unwrap_or("unknown");
                    return Err(format!("rpc error: code = Internal desc = stream terminated by RST_STREAM with error code: {code}"));
                }
                DATA | HEADERS if frame.stream == stream => {
                    if frame.kind == DATA {
                        answer.extend_from_slice(unpadded(&frame));
                    }
                    if answer.len() > MAX_ANSWER {
                        return Err("rpc error: code = ResourceExhausted desc = grpc: received message larger than max".to_owned());
                    }
                    if frame.flags & END_STREAM != 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        // A call that fails ends with header fields alone.
        let message = answer.get(5..).ok_or("rpc error: code = Unknown desc = the plugin refused the call")?;
        A::decode(message).map_err(|error| format!("rpc error: code = Internal desc = grpc: failed to unmarshal: {error}"))
    }

    async fn read(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_FRAME {
            return Err(std::io::Error::other("http2: frame too large"));
        }
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]), payload })
    }
}

fn unpadded(frame: &Frame) -> &[u8] {
    match frame.payload.split_first() {
        Some((pad, rest)) if frame.flags & PADDED != 0 => &rest[..rest.len().saturating_sub(usize::from(*pad))],
        _ => &frame.payload,
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The header fields of a call. Indices are those of HPACK's static table.
fn headers(path: &str, authority: &str) -> Vec<u8> {
    // `:method: POST` and `:scheme: http` are whole entries of the table.
    let mut block = vec![0x83, 0x86];
    // Literals without indexing, names from the table: 4 `:path`, 1 `:authority`, 31 `content-type`.
    for (name, value) in [(&[0x04][..], path), (&[0x01], authority), (&[0x0f, 0x10], "application/grpc")] {
        block.extend_from_slice(name);
        literal(&mut block, value);
    }
    block.push(0x00);
    literal(&mut block, "te");
    literal(&mut block, "trailers");
    block
}

/// A string without Huffman coding: its length with a prefix of seven bits, then its bytes.
fn literal(block: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(short) if short < 127 => block.push(short),
        _ => {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128 + 128).unwrap_or_default());
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap_or_default());
        }
    }
    block.extend_from_slice(text.as_bytes());
}

/// A path as grpc-go writes it into `:authority` (`encodeAuthority`).
fn authority(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{authority, literal};

    #[test]
    fn the_authority_is_the_kubelets() {
        for (socket, wanted) in [
            (
                "/var/lib/kubelet/plugins_registry/gpu.example.com@reg.sock",
                "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fgpu.example.com@reg.sock",
            ),
            ("/tmp/a b/x-reg.sock", "%2Ftmp%2Fa%20b%2Fx-reg.sock"),
        ] {
            assert_eq!(authority(socket), wanted);
        }
    }

    #[test]
    fn lengths_are_written_as_hpack_has_them() {
        for (length, wanted) in [(3, vec![3]), (126, vec![126]), (127, vec![127, 0]), (300, vec![127, 173, 1])] {
            let mut block = Vec::new();
            literal(&mut block, &"x".repeat(length));
            assert_eq!(block[..block.len() - length], wanted, "{length}");
        }
    }
}
