//! Names in the metadata of a checkpoint, and files beside those of a directory.

/// What PyTorch records of each module, by its path.
pub(crate) const KEY_MODULES: &str = "_metadata";
/// What the index of a set records.
pub(crate) const KEY_INDEX: &str = "index";

/// Namespace of what a zip archive was read with, and its keys: the folder of the records, and the pickle, if it does not
/// follow from the tensors.
pub(crate) const ZIP: &str = "torch.zip";
pub(crate) const KEY_FOLDER: &str = "folder";
pub(crate) const KEY_PICKLE: &str = "pickle";
/// The dicts and lists that the names come from, if the pickle is not kept.
pub(crate) const KEY_CONTAINERS: &str = "containers";
/// How the file that was read differs from the one that is written for it, a clause each.
pub(crate) const KEY_DIFFERENCES: &str = "differences";

/// Namespace of what a directory was read with, and its keys: the file `.metadata`, and the pickles of values that do not
/// follow from the metadata, by name.
pub(crate) const DCP: &str = "torch.dcp";
pub(crate) const KEY_METADATA: &str = "metadata";
pub(crate) const KEY_OBJECTS: &str = "objects";

/// Files beside the shards of a directory, each with the namespace of its values: of Lightning, and of Megatron.
pub(crate) const COMPANIONS: [(&str, &str); 2] = [("meta.pt", "torch.meta"), ("common.pt", "torch.common")];
