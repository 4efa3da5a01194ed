//! One instance of a driver on a node: what its sockets are called, and names that always fit.
//!
//! During a rolling update two instances of a driver run side by side, told apart by their pods' uids. The path of
//! a Unix socket is short, so each name has a preferred form and shorter ones, in which a hash stands for the uid
//! and then for the driver's name too.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::grpc::{SocketError, check_length};

/// The name space of the hashes (uuid version 5). Never changes: an instance must recognise what another one made.
const HASHES: Uuid = Uuid::from_u128(0x3b6f_02d1_97e4_5c8a_b1d0_44a7_0e9c_5d21);
/// Digits of a hash: 48 bits, among the handful of instances and drivers of one node.
const HASH_DIGITS: usize = 12;

/// What a file name of the registration folder ends with. The kubelet does not mind; people see what it is.
const REGISTRATION: &str = "reg.sock";

/// Names one instance of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance<'a> {
    pub(super) driver: &'a str,
    /// The pod's uid. Without one there is one instance at a time, with the plainest names.
    pub(super) uid: Option<&'a str>,
}

impl Instance<'_> {
    /// The socket of the DRA plugin API in the driver's own folder.
    pub(super) fn dra_socket(&self, folder: &Path) -> PathBuf {
        let names = match self.uid {
            None => vec!["dra.sock".to_owned()],
            Some(uid) => vec![format!("dra-{uid}.sock"), format!("{}.sock", hash(uid))],
        };
        first_that_fits(folder, names)
    }

    /// The socket on which the kubelet finds the instance.
    ///
    /// The `@` in its name is not decoration: a kubelet dials this socket with the percent-encoded path as
    /// `:authority`, which the HTTP/2 library here refuses as malformed, unless there is an `@`, because
    /// percent-encoding is allowed in what stands before it.
    pub(super) fn registration_socket(&self, folder: &Path) -> PathBuf {
        let driver = self.driver;
        let names = match self.uid {
            None => vec![format!("{driver}@{REGISTRATION}"), format!("{}@{REGISTRATION}", hash(driver))],
            Some(uid) => vec![
                format!("{driver}@{uid}-{REGISTRATION}"),
                format!("{driver}@{}-{REGISTRATION}", hash(uid)),
                format!("{}@{}-{REGISTRATION}", hash(driver), hash(uid)),
            ],
        };
        first_that_fits(folder, names)
    }

    /// Whether a file in the registration folder is, by its name, a socket of any instance of this driver. No other
    /// driver's name can have an `@`, so that none is taken for this one.
    pub(super) fn is_registration_of_driver(&self, file_name: &str) -> bool {
        let Some((name, rest)) = file_name.split_once('@') else { return false };
        (name == self.driver || name == hash(self.driver)) && rest.ends_with(REGISTRATION)
    }
}

/// The first name that fits below `folder`, else the shortest; whoever binds it is told by how much it is too long.
fn first_that_fits(folder: &Path, names: Vec<String>) -> PathBuf {
    let mut paths: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
    match paths.iter().position(|path| check_length(path).is_ok()) {
        Some(at) => paths.swap_remove(at),
        None => paths.into_iter().min_by_key(|path| path.as_os_str().len()).unwrap_or_else(|| folder.to_path_buf()),
    }
}

/// Checks that both sockets can be bound, as far as their lengths go.
///
/// # Errors
/// [`SocketError::TooLong`] with the numbers.
pub(super) fn check(dra: &Path, registration: &Path) -> Result<(), SocketError> {
    check_length(dra)?;
    check_length(registration)
}

fn hash(text: &str) -> String {
    let mut digits = Uuid::new_v5(&HASHES, text.as_bytes()).simple().to_string();
    digits.truncate(HASH_DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::{Instance, check};
    use crate::driver::grpc::{MAX_SOCKET_PATH, SocketError};

    const UID: &str = "0b9c4f6e-3f0a-4c8e-9a5d-1d2f3e4a5b6c";
    const OTHER: &str = "0b9c4f6e-3f0a-4c8e-9a5d-1d2f3e4a5b6d";

    /// A valid driver name of each length, with and without dots.
    fn drivers() -> impl Iterator<Item = String> {
        (1..=63_usize).flat_map(|length| {
            let dotted: String = "gpu-x.".chars().cycle().take(length - 1).chain(['z']).collect();
            ["d".repeat(length), dotted.replace(".z", "dz")]
        })
    }

    fn sockets(driver: &str, uid: Option<&str>, root: &Path) -> (PathBuf, PathBuf) {
        let instance = Instance { driver, uid };
        (instance.dra_socket(&root.join("plugins").join(driver)), instance.registration_socket(&root.join("plugins_registry")))
    }

    #[test]
    fn every_driver_name_fits_under_the_kubelets_folder() {
        let root = Path::new("/var/lib/kubelet");
        for driver in drivers() {
            for uid in [None, Some(UID), Some("7d1e0a7a2d7f4a6f9e0b1c2d3e4f5a6b")] {
                let (dra, registration) = sockets(&driver, uid, root);
                check(&dra, &registration).unwrap_or_else(|error| panic!("{driver} {uid:?}: {error}"));
                for path in [&dra, &registration] {
                    std::os::unix::net::SocketAddr::from_pathname(path).expect("the system agrees");
                }
                let name = registration.file_name().unwrap().to_str().unwrap();
                assert!(name.contains('@') && !name.starts_with('.'), "{name}");
                // What a kubelet makes of the path must be an authority that the HTTP/2 server takes.
                let authority = registration.display().to_string().replace('/', "%2F");
                format!("http://{authority}").parse::<http::Uri>().unwrap_or_else(|error| panic!("{authority}: {error}"));
                assert!(Instance { driver: &driver, uid: None }.is_registration_of_driver(name), "{name}");
            }
        }
    }

    #[test]
    fn for_any_folder_a_name_fits_or_is_refused_with_the_numbers() {
        for driver in drivers() {
            for uid in [None, Some(UID)] {
                for depth in 1..MAX_SOCKET_PATH {
                    let root = PathBuf::from(format!("/{}", "r".repeat(depth)));
                    let (dra, registration) = sockets(&driver, uid, &root);
                    let lengths = [dra.as_os_str().len(), registration.as_os_str().len()];
                    match check(&dra, &registration) {
                        Ok(()) => assert!(lengths.iter().all(|length| *length <= MAX_SOCKET_PATH)),
                        Err(SocketError::TooLong { length, limit, .. }) => {
                            assert!(length > limit && limit == MAX_SOCKET_PATH && lengths.contains(&length));
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }

    #[test]
    fn plain_names_are_kept_and_instances_differ() {
        let root = Path::new("/var/lib/kubelet");
        let (dra, registration) = sockets("gpu.example.com", None, root);
        assert_eq!(dra, root.join("plugins/gpu.example.com/dra.sock"));
        assert_eq!(registration, root.join("plugins_registry/gpu.example.com@reg.sock"));
        let (dra, registration) = sockets("gpu.example.com", Some(UID), root);
        assert_eq!(dra, root.join(format!("plugins/gpu.example.com/dra-{UID}.sock")));
        assert_eq!(registration, root.join(format!("plugins_registry/gpu.example.com@{UID}-reg.sock")));
        for driver in drivers() {
            let all: BTreeSet<PathBuf> = [None, Some(UID), Some(OTHER)].iter().map(|uid| sockets(&driver, *uid, root).1).collect();
            assert_eq!(all.len(), 3, "{driver}");
            let all: BTreeSet<PathBuf> = [None, Some(UID), Some(OTHER)].iter().map(|uid| sockets(&driver, *uid, root).0).collect();
            assert_eq!(all.len(), 3, "{driver}");
        }
    }

    #[test]
    fn another_drivers_socket_is_not_taken_for_ours() {
        let ours = Instance { driver: "gpu.example.com", uid: None };
        for (name, expected) in [
            ("gpu.example.com@reg.sock", true),
            ("gpu.example.com@0b9c-reg.sock", true),
            ("gpu.example.com-x@reg.sock", false),
            ("x.gpu.example.com@reg.sock", false),
            ("gpu.example.com-reg.sock", false),
            ("gpu.example.com@x", false),
        ] {
            assert_eq!(ours.is_registration_of_driver(name), expected, "{name}");
        }
    }
}
