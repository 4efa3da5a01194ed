//! Tables of scripts with what they print and how they end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use super::{Output, Process, Program, Signals};
use crate::base::clock::ManualClock;

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl Output for Lines {
    fn line(&self, text: &str) {
        self.0.lock().expect("lines").push(text.to_owned());
    }
}

struct Started {
    clock: ManualClock,
    signals: Arc<Signals>,
    lines: Arc<Lines>,
    task: tokio::task::JoinHandle<i32>,
}

fn start(command: &[&str]) -> Started {
    let words: Vec<String> = command.iter().map(|w| (*w).to_owned()).collect();
    let clock = ManualClock::new("2026-12-01T02:00:00Z".parse::<Timestamp>().expect("a time"));
    let signals = Arc::new(Signals::default());
    let lines = Arc::new(Lines::default());
    let environment = [("PATH", "/bin"), ("HOSTNAME", "pod0"), ("GPU_DEVICE_0", "gpu-0")];
    let process = Process {
        environment: environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        hostname: "pod0".to_owned(),
        clock: Arc::new(clock.clone()),
        signals: Arc::clone(&signals),
        output: Arc::clone(&lines) as Arc<dyn Output>,
        settled: Arc::default(),
    };
    let task = tokio::spawn(Program::new(&words, &[], "ubuntu:24.04").run(process));
    Started { clock, signals, lines, task }
}

impl Started {
    async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    async fn end(self) -> (i32, String) {
        let code = tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("it ends").expect("no panic");
        let lines = self.lines.0.lock().expect("lines").join("\n");
        (code, lines)
    }
}

#[tokio::test]
async fn scripts_print_and_end() {
    for (script, code, printed) in [
        ("echo hello", 0, "hello"),
        ("exit 3", 3, ""),
        ("false; echo $?", 0, "1"),
        ("false || echo no; true && echo yes; ! true || echo never; exit 256", 0, "no\nyes\nnever"),
        ("X=1; Y=\"$X 2\"; echo $Y ${Z:-none} '$X' \"${#Y}\"", 0, "1 2 none $X 3"),
        (
            "foo --bar",
            127,
            "sh: 1: foo: not found\n[dralab] this container is simulated: it knows the shell and a few commands, `foo` is not one of them",
        ),
        ("for i in a b 'c d'; do echo $i; done | wc -l", 0, "3"),
        ("i=0; while true; do i=$((i+1)); if [ $i -ge 3 ]; then break; fi; done; echo $i; exit $((i*2-1))", 5, "3"),
        ("env | grep GPU", 0, "GPU_DEVICE_0=gpu-0"),
        ("printenv GPU_DEVICE_0; printenv NOPE", 1, "gpu-0"),
        ("set -e; echo one; false; echo two", 1, "one"),
        ("set -e; if false; then :; fi; false || true; echo on", 0, "on"),
        ("f() { echo f$1; return 4; }; f 1; echo $?", 0, "f1\n4"),
        ("(exit 7); echo $?; echo $(echo in; exit 2)", 0, "7\nin"),
        (
            "echo to > /tmp/f; echo more >> /tmp/f; cat /tmp/f; echo gone > /dev/null; cat /nope",
            1,
            "to\nmore\ncat: /nope: No such file or directory",
        ),
        ("echo -n a; printf '%s-%s\\n' b c; printf end", 0, "ab-c\nend"),
        (
            "export A='it s'; export",
            0,
            "export A='it s'\nexport GPU_DEVICE_0='gpu-0'\nexport HOSTNAME='pod0'\nexport PATH='/bin'\nexport PWD='/'",
        ),
        ("trap 'echo bye' EXIT; echo hi; exit 2", 2, "hi\nbye"),
        ("sh -c 'echo $0 $1; exit 9' x y; echo $?", 0, "sh y\n9"),
        ("date -u '+%Y-%m-%d'; hostname", 0, "2026-12-01\npod0"),
        ("f() { f; }; f", 2, "sh: 1: nested too deeply"),
        (
            "nvidia-smi",
            0,
            "nvidia-smi: this container is simulated by dralab, there is no GPU behind it; `env` shows what the driver gave it",
        ),
        ("exec echo last; echo never", 0, "last"),
        ("true & wait $!; echo $?; false & wait $!; echo $?; wait; echo $?", 0, "0\n1\n0"),
        ("for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done; until true; do :; done", 0, "1\n3"),
        ("echo ${NOPE:?must be set}; echo never", 2, "sh: 1: NOPE: must be set"),
    ] {
        assert_eq!(start(&["/bin/sh", "-c", script]).end().await, (code, printed.to_owned()), "{script}");
    }
}

#[tokio::test]
async fn bash_has_its_own_words() {
    let (code, printed) = start(&["bash", "-c", "export; foo"]).end().await;
    assert_eq!(code, 127);
    assert!(
        printed.starts_with("declare -x GPU_DEVICE_0=\"gpu-0\"\ndeclare -x HOSTNAME=\"pod0\"\ndeclare -x OLDPWD\ndeclare -x PATH="),
        "{printed}"
    );
    assert!(printed.contains("declare -x SHLVL=\"1\"\nbash: line 1: foo: command not found"), "{printed}");
}

#[tokio::test]
async fn commands_without_a_shell() {
    assert_eq!(start(&["env"]).end().await, (0, "GPU_DEVICE_0=gpu-0\nHOSTNAME=pod0\nPATH=/bin".to_owned()));
    assert_eq!(start(&["echo", "$HOME", "a b"]).end().await, (0, "$HOME a b".to_owned()));
    let sleeper = start(&["sleep", "1m"]);
    sleeper.settle().await;
    sleeper.signals.terminate();
    sleeper.settle().await;
    assert!(!sleeper.task.is_finished(), "process 1 without a handler ignores SIGTERM");
    sleeper.clock.advance(Duration::from_secs(60));
    assert_eq!(sleeper.end().await.0, 0);
}

#[tokio::test]
async fn the_pod_of_the_tutorial_runs_until_told_to_end() {
    let pod = start(&["bash", "-c", "export; trap 'exit 0' TERM; sleep 9999 & wait"]);
    pod.settle().await;
    assert!(!pod.task.is_finished());
    assert_eq!(pod.clock.sleepers(), 1);
    pod.signals.terminate();
    let (code, printed) = pod.end().await;
    assert_eq!(code, 0);
    assert!(printed.contains("declare -x GPU_DEVICE_0=\"gpu-0\""));
}

#[tokio::test]
async fn a_trap_waits_for_the_command_in_the_foreground() {
    let pod = start(&["sh", "-c", "trap 'echo caught; exit 5' TERM; while true; do sleep 10; done"]);
    pod.settle().await;
    pod.signals.terminate();
    pod.settle().await;
    assert!(!pod.task.is_finished(), "sleep is in the foreground");
    pod.clock.advance(Duration::from_secs(10));
    assert_eq!(pod.end().await, (5, "caught".to_owned()));
    let pod = start(&["sh", "-c", "trap : TERM INT; sleep infinity & wait"]);
    pod.settle().await;
    pod.signals.terminate();
    assert_eq!(pod.end().await, (143, String::new()));
}

#[tokio::test]
async fn what_is_not_understood_runs_until_told_to_end() {
    for (command, said) in [
        (
            vec!["python", "train.py"],
            "[dralab] this container is simulated and the command `python` is not simulated; it runs until it is told to end",
        ),
        (
            vec!["sh", "-c", "case x in x) ;; esac"],
            "[dralab] this container is simulated and the script was not understood: `case` is not understood here; it runs until it is told to end",
        ),
        (
            vec![],
            "[dralab] this container is simulated and the command of image ubuntu:24.04 is not simulated; it runs until it is told to end",
        ),
    ] {
        let pod = start(&command);
        pod.settle().await;
        assert!(!pod.task.is_finished());
        pod.signals.terminate();
        assert_eq!(pod.end().await, (0, said.to_owned()));
    }
}

#[tokio::test]
async fn a_busy_loop_is_slowed_down() {
    let pod = start(&["sh", "-c", "while true; do :; done"]);
    for _ in 0..3000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pod.clock.sleepers(), 1, "it waits by the clock");
    pod.task.abort();
}

#[tokio::test]
async fn what_grows_without_end_is_cut() {
    let doubling = format!("a=x; {} echo $a", "a=$a$a;".repeat(40));
    let arguments = format!("set -- x x; {} echo $#", "set -- \"$@\" \"$@\";".repeat(40));
    for script in [doubling, arguments] {
        let (code, said) = start(&["sh", "-c", &script]).end().await;
        assert_eq!((code, said.as_str()), (2, "sh: 1: out of memory: a word of a simulated container has at most 1 MiB"));
    }
}
