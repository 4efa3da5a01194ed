//! Answers the shared case files for `dralab dev cases`.
