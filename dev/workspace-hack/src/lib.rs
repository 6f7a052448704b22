//! Nothing: the dependencies of this package have the features that any package of the workspace needs of them.
#![forbid(unsafe_code)]
