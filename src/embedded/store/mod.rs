//! Objects as JSON, one revision counter, a history to watch, and a journal on disk.
