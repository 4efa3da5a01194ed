//! What the scheduler decides: queue, filter, score, reserve and a plan of writes, as a state machine over a snapshot and a given clock.
