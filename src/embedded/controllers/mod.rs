//! Controllers: claims from templates, claim release, owner garbage collection, namespaces.
