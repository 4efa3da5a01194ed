//! How an API server is reached: configuration, proxies, apply, watch.
