"""Tests of tools/install_dependencies, on a pretended machine that lacks every program and remembers what apt was told."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "install_dependencies"
PROGRAMS_OF_THE_SCRIPT = ("bash", "env", "sed", "sort", "head", "uname", "cat", "dirname")


class PretendedMachine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="with space ")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for program in PROGRAMS_OF_THE_SCRIPT:
            (self.bin / program).symlink_to(shutil.which(program))
        self.told = self.root / "told"
        self.program("dpkg-query", "exit 1")
        self.program("apt-get", f'echo "$DEBIAN_FRONTEND apt-get $*" >>"{self.told}"')
        self.user(0)

    def program(self, name, body):
        file = self.bin / name
        file.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        file.chmod(0o755)

    def user(self, number):
        self.program("id", f"echo {number}")

    def run_on(self, system, version, *options):
        release = self.root / "os-release"
        release.write_text(f'ID={system}\nVERSION_ID="{version}"\n', encoding="utf-8")
        return subprocess.run([str(self.bin / "bash"), str(SCRIPT), *options], capture_output=True, text=True, check=False,
                              cwd=self.root, stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.bin), "ATTN_OS_RELEASE": str(release)})

    def told_lines(self):
        return self.told.read_text(encoding="utf-8").splitlines() if self.told.exists() else []

    def test_both_distributions_print_the_packages_and_install_them(self):
        for system, version in (("debian", "12"), ("debian", "13"), ("ubuntu", "24.04"), ("ubuntu", "26.04")):
            with self.subTest(system=system, version=version):
                self.told.unlink(missing_ok=True)
                done = self.run_on(system, version)
                self.assertEqual(done.returncode, 0, done.stderr)
                first_line = done.stdout.splitlines()[0]
                update, install = self.told_lines()
                self.assertIn("apt-get update", update)
                self.assertIn("noninteractive apt-get install -y", install)
                for package in ("g++", "cmake", "ninja-build", "pkg-config"):
                    self.assertIn(f" {package}", first_line)
                    self.assertIn(f" {package}", install)

    def test_what_is_installed_is_not_installed_again(self):
        self.program("dpkg-query", "echo installed")
        self.user(1000)
        done = self.run_on("debian", "12", "--check", "--fuzz")
        self.assertEqual((done.returncode, done.stdout, done.stderr, self.told_lines()), (0, "", "", []))

    def test_a_removed_package_that_left_its_settings_is_missing(self):
        self.program("dpkg-query", "echo config-files")
        self.assertEqual(self.run_on("debian", "12").returncode, 0)
        self.assertEqual(len(self.told_lines()), 2)

    def test_a_program_that_came_another_way_counts_unless_it_is_too_old(self):
        self.program("cmake", "echo cmake version 3.22.1")
        self.assertIn(" cmake ", self.run_on("ubuntu", "24.04").stdout)
        self.program("cmake", "echo cmake version 4.4.0")
        self.assertNotIn(" cmake ", self.run_on("ubuntu", "24.04").stdout)

    def test_another_system_gets_the_list_by_purpose_and_exit_code_4(self):
        for system, version in (("fedora", "41"), ("debian", "11"), ("ubuntu", "22.04")):
            done = self.run_on(system, version)
            self.assertEqual(done.returncode, 4)
            self.assertIn(f"this is {system} {version}", done.stderr)
            self.assertIn("CMake 3.25 or later (cmake)", done.stderr)
        self.assertEqual(self.told_lines(), [])

    def test_another_system_that_has_all_is_fine(self):
        self.program("dpkg-query", "echo installed")
        self.assertEqual(self.run_on("fedora", "41").returncode, 0)

    def test_without_root_sudo_is_used_and_without_sudo_the_command_is_named(self):
        self.user(1000)
        done = self.run_on("debian", "12")
        self.assertEqual(done.returncode, 4)
        self.assertIn("apt-get install --no-install-recommends", done.stderr)
        self.assertEqual(self.told_lines(), [])
        self.program("sudo", f'echo sudo >>"{self.told}"; "$@"')
        self.assertEqual(self.run_on("debian", "12").returncode, 0)
        self.assertEqual([line for line in self.told_lines() if line == "sudo"], ["sudo", "sudo"])

    def test_a_failing_apt_fails_the_command(self):
        self.program("apt-get", "exit 100")
        self.assertNotEqual(self.run_on("debian", "12").returncode, 0)

    def test_options(self):
        self.assertEqual(self.run_on("debian", "12", "--nonsense").returncode, 2)
        listed = self.run_on("fedora", "41", "--list")
        self.assertEqual(listed.returncode, 0)
        packages = listed.stdout.split()
        self.assertIn("libopenblas-openmp-dev", packages)
        self.assertEqual(len(packages), len(set(packages)))
        more = self.run_on("fedora", "41", "--check", "--list").stdout.split()
        self.assertEqual(set(more) - set(packages), {"clang-format-14", "clang-tidy-14", "libomp-14-dev"})


if __name__ == "__main__":
    unittest.main()
