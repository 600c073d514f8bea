//! Tests of `berth interpret` with customizations and objects in files.

use super::command_line::run;

const CUSTOMIZATION: &str = r"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: rollouts
spec:
  target: {apiVersion: example.com/v1, kind: Rollout}
  customizations:
    replicaResource:
      luaScript: function GetReplicas(rollout) return rollout.spec.size, nil end
    replicaRevision:
      luaScript: |
        function ReviseReplica(rollout, size)
          rollout.spec.size = size
          return rollout
        end
    statusAggregation:
      luaScript: |
        function AggregateStatus(rollout, items)
          rollout.status = {members = #items}
          return rollout
        end
    healthInterpretation:
      luaScript: function InterpretHealth(rollout) return rollout.spec.size > 1 end
";
const ROLLOUT: &str = "apiVersion: example.com/v1\nkind: Rollout\nspec: {size: 3, hosts: []}\n";
const ITEMS: &str = "clusterName: m1\n---\nclusterName: m2\n";

#[test]
fn scripts_are_checked_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let customization = file("customization.yaml", CUSTOMIZATION);
    let broken = file("broken.yaml", &CUSTOMIZATION.replace("> 1 end", "> 1"));
    let (rollout, items) = (file("rollout.yaml", ROLLOUT), file("items.yaml", ITEMS));
    let interpret = |words: &[&str]| {
        let output = run("berth", &[&["interpret", "-f"], words].concat());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    for (words, code, expected) in [
        (
            vec![&*customization, "--check"],
            0,
            "TARGET: example.com/v1 Rollout\nRULES:\n    Retain:              UNSET\n    InterpretReplica:    PASS",
        ),
        (
            vec![&*broken, "--check"],
            1,
            "InterpretHealth:     ERROR: the script does not compile",
        ),
        (
            vec![
                &*customization,
                "--operation=interpretReplica",
                "--desired-file",
                &rollout,
            ],
            0,
            "---\n# [1/2] replica:\n3\n---\n# [2/2] requires:\nnull\n",
        ),
        (
            vec![
                &*customization,
                "--operation=ReviseReplica",
                "--observed-file",
                &rollout,
                "--desired-replica=7",
            ],
            0,
            "size: 7",
        ),
        (
            vec![
                &*customization,
                "--operation=aggregateStatus",
                "--observed-file",
                &rollout,
                "--status-file",
                &items,
            ],
            0,
            "members: 2",
        ),
        (
            vec![
                &*customization,
                "--operation=InterpretHealth",
                "--observed-file",
                &rollout,
            ],
            0,
            "# [1/1] healthy:\ntrue\n",
        ),
        (
            vec![
                &*customization,
                "--operation=Retain",
                "--observed-file",
                &rollout,
            ],
            1,
            "has a script with Retain for Rollout of example.com/v1",
        ),
        (
            vec![&*customization, "--operation=Prune"],
            2,
            "use one of Retain, InterpretReplica",
        ),
        (
            vec![&*customization, "--operation=InterpretHealth"],
            1,
            "InterpretHealth needs --desired-file or --observed-file",
        ),
    ] {
        let (found, text) = interpret(&words);
        assert_eq!(found, Some(code), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}
