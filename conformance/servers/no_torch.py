"""A module torch that can be imported, for servers whose parts with PyTorch do not run here: PyTorch itself is a download of gigabytes."""

import importlib.abc
import importlib.machinery
import sys
import types


class _Anything:
    """What classes, functions and decorators of torch are while files are imported."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, decorated):
        return decorated


class _Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        if module.__name__ == "torch":
            module.cuda = types.SimpleNamespace(is_available=lambda: False)


sys.meta_path.insert(0, _Finder())
