//! Functions and classes that no checkpoint needs, and with which a pickle can do anything to whoever loads it.

/// Modules of which everything is dangerous to call, with those below them.
const MODULES: &[&str] = &[
    "_osx_support",
    "_pickle",
    "_posixsubprocess",
    "_winapi",
    "aiohttp",
    "asyncio",
    "bdb",
    "cProfile",
    "cffi",
    "cloudpickle",
    "code",
    "codeop",
    "commands",
    "compileall",
    "ctypes",
    "dill",
    "distutils",
    "doctest",
    "ensurepip",
    "ftplib",
    "http",
    "httplib",
    "idlelib",
    "imp",
    "importlib",
    "lib2to3",
    "marshal",
    "multiprocessing",
    "netrc",
    "nt",
    "ntpath",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "popen2",
    "posix",
    "posixpath",
    "profile",
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "setuptools",
    "shelve",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "timeit",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "winreg",
    "xmlrpc",
    "zipimport",
];

/// Functions of other modules.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("_operator", &["attrgetter", "itemgetter", "methodcaller"]),
    ("builtins", BUILTINS),
    ("__builtin__", BUILTINS),
    ("__builtins__", BUILTINS),
    ("copyreg", &["add_extension", "pickle"]),
    ("functools", &["reduce"]),
    ("io", &["FileIO", "OpenWrapper", "open", "open_code"]),
    ("_io", &["FileIO", "open", "open_code"]),
    ("itertools", &["accumulate", "starmap"]),
    ("joblib", &["load"]),
    ("numpy", &["fromfile", "load", "loadtxt", "memmap", "save"]),
    ("numpy.testing._private.utils", &["runstring"]),
    ("operator", &["attrgetter", "itemgetter", "methodcaller"]),
    ("torch", &["compile", "load"]),
    ("torch.serialization", &["load"]),
    ("torch.storage", &["_load_from_bytes"]),
    ("types", &["CodeType", "FunctionType", "LambdaType"]),
];

const BUILTINS: &[&str] = &[
    "__import__",
    "apply",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "execfile",
    "exit",
    "file",
    "filter",
    "getattr",
    "globals",
    "input",
    "locals",
    "map",
    "open",
    "quit",
    "raw_input",
    "reload",
    "setattr",
    "vars",
];

/// Packages below `torch` whose functions compile, download or run something.
const TORCH: &[&str] = &[
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.rpc",
    "torch.fx.experimental",
    "torch.hub",
    "torch.jit",
    "torch.multiprocessing",
    "torch.utils.bottleneck",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
    "torch.utils.model_zoo",
];

/// Whether calling this runs code, or reads or writes something outside of the process.
pub(crate) fn is_dangerous(module: &str, name: &str) -> bool {
    // What a module imports can be reached by its name: `torch.serialization` `os.system`.
    let through = name.rsplit_once('.').is_some_and(|(path, _)| path.split('.').any(is_module));
    let root = module.split('.').next().unwrap_or(module);
    let below = |package: &&str| {
        module.strip_prefix(*package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let listed = FUNCTIONS.iter().any(|(own, names)| *own == module && names.contains(&name));
    // TorchScript's own lists.
    let is_script = module == "torch.jit._pickle";
    through || is_module(root) || listed || (!is_script && TORCH.iter().any(below))
}

/// Whether this gets an attribute of an object: how Python pickles a bound method.
pub(crate) fn is_getter(module: &str, name: &str) -> bool {
    matches!(module, "builtins" | "__builtin__") && name == "getattr"
}

/// Whether getting this attribute of a class is as harmless as naming the class: neither may be, or lead to, what runs
/// something, whether the name is that of a class or of a module.
pub(crate) fn has_harmless(module: &str, name: &str, attribute: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let within = format!("{module}.{name}");
    !is_dangerous(module, name)
        && !is_module(last)
        && !is_module(attribute)
        && [module, &within, name, last].iter().all(|module| !is_dangerous(module, attribute))
}

fn is_module(name: &str) -> bool {
    MODULES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_run_something_are_known_however_they_are_reached() {
        for (module, name) in [
            ("posix", "system"),
            ("os", "popen"),
            ("subprocess", "Popen"),
            ("multiprocessing.util", "spawnv_passfds"),
            ("builtins", "eval"),
            ("__builtin__", "getattr"),
            ("torch.serialization", "os.system"),
            ("torch.hub", "load"),
            ("torch.storage", "_load_from_bytes"),
        ] {
            assert!(is_dangerous(module, name), "{module} {name}");
        }
    }

    #[test]
    fn attributes_of_modules_that_run_something_are_not_harmless() {
        for (module, name, attribute) in [
            ("torch", "os", "system"),
            ("torch.serialization", "sys", "modules"),
            ("torch", "hub", "load"),
            ("torch", "functools", "reduce"),
            ("torch", "builtins", "eval"),
            ("builtins", "eval", "__call__"),
            ("os", "path", "join"),
            ("torch", "serialization", "os"),
            ("mine", "Thing", "subprocess"),
        ] {
            assert!(!has_harmless(module, name, attribute), "{module} {name} {attribute}");
        }
        for (module, name, attribute) in
            [("__builtin__", "dict", "fromkeys"), ("yolo", "Conv", "create"), ("mine", "Kind", "LINEAR")]
        {
            assert!(has_harmless(module, name, attribute), "{module} {name} {attribute}");
        }
    }

    #[test]
    fn classes_of_checkpoints_are_not_dangerous() {
        for (module, name) in [
            ("collections", "OrderedDict"),
            ("torch._utils", "_rebuild_tensor_v2"),
            ("argparse", "Namespace"),
            ("builtins", "set"),
            ("osmium", "Thing"),
            ("torch.hubs", "load"),
            ("pathlib", "PosixPath"),
            ("__main__", "Trainer.Config"),
            ("torch.jit._pickle", "build_intlist"),
            ("types", "SimpleNamespace"),
        ] {
            assert!(!is_dangerous(module, name), "{module} {name}");
        }
    }
}
