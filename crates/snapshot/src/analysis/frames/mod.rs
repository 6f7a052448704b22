//! What the frames of a stack show: which of them identify the code, what it created, and who owns it.

mod viewer_filter;
mod function_name;
mod known_owners;
mod role_rules;
mod role;
mod owner;
mod made;
mod shown;
mod call;
mod generated;
mod disguise;

pub use call::Call;
pub(crate) use disguise::{disguised, folder};
pub use function_name::FunctionName;
pub(super) use generated::is_generated;
pub use made::Made;
pub(super) use made::{is_backward, is_way_back};
pub(crate) use owner::is_mark;
pub(super) use owner::{ADDRESSES, INSTALLED, aliases, is_of_driver};
pub use owner::{ALIAS, IMPORTED, MANAGED, Owners, PROGRAM, UNKNOWN, is_own};
pub(super) use shown::{IN_BACKWARD, JudgedFrame, judge};
pub use shown::{MarkedFrame, NO_STACK, ShownFrames};
pub use viewer_filter::is_shown;
