"""stress-ng's stressors, a second each, which verify what they did."""

import re
import subprocess

from parts import Lines, needs

CLASSES = ("os", "scheduler", "vm", "interrupt", "pipe", "io")
# What changes the machine, fills its memory, asks for devices of its own, or sends to a network.
LEFT_OUT = re.findall(r"\S+", """
af-alg apparmor bad-ioctl bigheap bind-mount binderfs brk cpu-online dev dirmany efivar forkheavy icmp-flood idle-page ioport klog
kvm loadavg loop memhotplug mlockmany mmaphuge mmapmany netlink-proc netlink-task numa oom-pipe opcode pageswap pci physpage ping-
sock procfs quota ramfs rawdev rawpkt rawsock rawudp reboot resources rtc sctp dccp smi sockabuse sockdiag sockmany softlockup
stack swap sysbadaddr sysfs sysinval syscall tmpfs tun udp udp-flood umount uprobe watchdog x86syscall
""")
# Daemons, forks, threads, signals, and limits.
QUICK = ("daemon", "fork", "vfork", "clone", "pthread", "sigsegv", "bad-altstack", "exec", "zombie", "rlimit")


def stress(_, quick):
    """A part for each stressor; an exit status of 3 or 4 is one that the machine does not allow."""
    needs("stress-ng")
    listed = [subprocess.run(["stress-ng", "--class", f"{kind}?"], capture_output=True, text=True) for kind in CLASSES]
    names = {name for done in listed for name in re.sub(r"class '.*' stressors:", "", done.stdout + done.stderr).split()}
    for name in QUICK if quick else sorted(names.difference(LEFT_OUT)):
        words = ["stress-ng", f"--{name}", "1", "--timeout", "1", "--verify", "--temp-path", "FOLDER", "--oomable"]
        part = Lines(f"stress:{name}", words)
        part.seconds = 60
        yield part
