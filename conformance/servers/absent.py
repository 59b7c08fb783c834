"""Modules that can be imported although their packages are not installed, for servers whose parts that need them do not run here.

PyTorch, for instance, is a download of gigabytes: absent.pretend("torch").
"""

import importlib.abc
import importlib.machinery
import sys
import types


def pretend(*names):
    """Lets packages of these names, and whatever is in them, be imported."""
    sys.meta_path.insert(0, _Finder(names))


class _Anything:
    """What classes, functions and decorators of such a package are while files are imported."""

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
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        if module.__name__ == "torch":
            module.cuda = types.SimpleNamespace(is_available=lambda: False)
