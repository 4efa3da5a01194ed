//! The terminal: text catalogue, tables, rendering. Computes nothing.
