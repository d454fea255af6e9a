"""Drives what zsh completes after "weir", in a zsh on a terminal of its own.

    completion_zsh.py FOLDER PROGRAM

Each line is typed, and its end is a tab. What zsh is about to offer is written to a file, and so is the
end of each completion."""

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

LONG_S = 60
SETUP = r"""
PROMPT= ; unsetopt beep; setopt no_list_beep
fpath=($FOLDER $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  # Calls with -O, -A or -D ask what would match, and offer nothing.
  if [[ " $* " == *" -"[OAD]" "* ]]; then
    builtin compadd "$@"
    return
  fi
  local -a found
  builtin compadd -O found "$@"
  print -rl -- $found >>$SAID
}
ended() { print -r -- "END" >>$SAID }
offer() { comppostfuncs=(ended); _main_complete; compstate[insert]= ; compstate[list]= }
zle -C offer complete-word offer
bindkey '^I' offer
print -r -- "END" >>$SAID
"""


class Shell:
    def __init__(self, folder, home):
        self.said = pathlib.Path(home, "said")
        self.said.touch()
        setup = pathlib.Path(home, ".zshrc")
        setup.write_text(SETUP)
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(home)
            os.execvpe("zsh", ["zsh", "-d", "-i"], {
                "PATH": os.environ["PATH"], "ZDOTDIR": home, "HOME": home, "TERM": "dumb",
                "FOLDER": folder, "SAID": str(self.said)})
        self.await_end()

    def await_end(self):
        """What is said until then."""
        end = time.monotonic() + LONG_S
        shown = b""
        while not self.said.read_text().endswith("END\n"):
            if select.select([self.terminal], [], [], 0.01)[0]:
                shown += os.read(self.terminal, 65536)
            if time.monotonic() > end:
                sys.exit(f"zsh does not answer; it shows {shown}")
        words = self.said.read_text().splitlines()[:-1]
        self.said.write_text("")
        return words

    def offered(self, line):
        os.write(self.terminal, b"\x15weir " + line.encode() + b"\t")
        return sorted(set(word for word in self.await_end() if word))

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.process, 0)


def main(folder, program):
    faults = []
    with tempfile.TemporaryDirectory() as home:
        pathlib.Path(home, "trace.gz").touch()
        shell = Shell(folder, home)

        def expect(line, *words):
            found = shell.offered(line)
            if found != sorted(words):
                faults.append(f"weir {line}: {found} are offered, not {sorted(words)}")

        expect("ta", "take")
        expect("re", "refund", "replay", "reset")
        expect("he", "help")
        expect("help re", "refund", "replay", "reset")
        expect("take --de", "--deadline")
        expect("take key --wa", "--wait")
        expect("peek --wai")
        expect("simulate --format tr", "trace")
        expect("simulate --format=tr", "trace")
        expect("take --store redis", "redis://", "redis+unix://", "rediss://", "redis+sentinel://",
               "rediss+sentinel://")
        expect("take --rule sli", "sliding-window:", "sliding-log:")
        expect("take --cost ")
        expect("take k")
        expect("replay tr", "trace.gz")
        expect("simulate --plot tr", "trace.gz")
        expect("take tr")
        commands = shell.offered("help ")
        if len(commands) < 8:
            faults.append(f"help is offered {commands}")
        for command in commands:
            told = subprocess.run([program, "help", command], check=True, capture_output=True, text=True)
            expect(f"{command} --", *set(re.findall(r"^  (--[a-z-]+)", told.stdout, re.MULTILINE)))
        shell.end()
    print("\n".join(faults) or f"{len(commands)} commands are completed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
