"""Modules without content, in place of what a server imports and does not need here (torch, and what leads to it).

What is left of the server runs unchanged. See README.md.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types


class _Nothing(type):
    """The type of what a stub module has: a class to inherit from, to name as a type, or to decorate with."""

    def __getattr__(cls, name):
        if name == "__get_pydantic_core_schema__":
            return lambda *_: {"type": "any"}
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {"__module__": cls.__module__})

    def __call__(cls, *args, **kwargs):
        if cls.__dict__.get("__init__") is not None or cls.__mro__[1] is not object:
            return super().__call__(*args, **kwargs)  # a class of the server, which inherits from a stub
        return args[0] if args and callable(args[0]) else cls  # a decorator

    def __getitem__(cls, _):
        return cls

    def __iter__(cls):
        return iter(())


class _Stub(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        whole = self.__name__ + "." + name
        if any((r + ".").startswith(whole + ".") for r in self.__spec__.loader.real):
            return importlib.import_module(whole)
        return _Nothing(name, (), {"__module__": self.__name__})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names, real):
        self.names, self.real = names, real

    def find_spec(self, name, path=None, target=None):
        def nearest(names):
            return max((len(n) for n in names if (name + ".").startswith(n + ".")), default=0)
        if nearest(self.names) <= nearest(self.real):
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        found = None
        if any(r.startswith(name + ".") for r in self.real):
            found = importlib.machinery.PathFinder.find_spec(name, path)
        spec.submodule_search_locations = list(found.submodule_search_locations) if found else []
        return spec

    def create_module(self, spec):
        return _Stub(spec.name)

    def exec_module(self, module):
        pass


def install(names, real=()):
    """Replace the modules names and those below them by stubs, but not those in real and below them: the longest name counts."""
    sys.meta_path.insert(0, _Finder(set(names), set(real)))
