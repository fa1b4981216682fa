"""Packs the stories of `examples/` into the wheel as `gearshift/stories`; the rest is in pyproject.toml.

In an editable installation nothing is copied: the command finds them in the checkout.
"""

import shutil
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build

STORIES = Path("examples")
UNWANTED = ("__pycache__", ".gearshift")


class BuildStories(Command):
    """Copies the stories next to the package's modules."""

    description = "copy the example stories into the package"
    user_options = ()

    def initialize_options(self):
        self.build_lib = None
        self.editable_mode = False

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        if self.editable_mode:
            return
        for source, target in self._copies().items():
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def get_source_files(self):
        return list(self._copies())

    def get_outputs(self):
        return [] if self.editable_mode else list(self._copies().values())

    def get_output_mapping(self):
        return {}

    def _copies(self):
        target = Path(self.build_lib) / "gearshift" / "stories"
        return {
            str(path): str(target / path.relative_to(STORIES))
            for path in sorted(STORIES.rglob("*"))
            if path.is_file() and not any(part in UNWANTED for part in path.parts)
        }


class Build(build):
    """Removes what an earlier build left in the checkout: modules that no longer exist would be installed again."""

    sub_commands = (*build.sub_commands, ("build_stories", None))

    def run(self):
        shutil.rmtree(Path(self.build_lib) / "gearshift", ignore_errors=True)
        super().run()


setup(cmdclass={"build": Build, "build_stories": BuildStories})
