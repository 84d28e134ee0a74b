//! Whole clusters in virtual time from one seed.
