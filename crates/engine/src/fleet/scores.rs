//! The scores of clusters, which other programs report in ClusterScores.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::ClusterScore;
use berth_api::cluster_score::{ClusterScoreSpec, ClusterScores};

/// The scores of each cluster, by the name of the cluster.
pub(crate) type ScoresByCluster = BTreeMap<Arc<str>, Arc<ClusterScores>>;

/// All ClusterScores, and their scores by cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScoreTable {
    /// The cluster of each object, by the name of the object.
    cluster_of: HashMap<String, Arc<str>>,
    objects: BTreeMap<Arc<str>, BTreeMap<String, ClusterScoreSpec>>,
    by_cluster: Arc<ScoresByCluster>,
}

impl ScoreTable {
    /// Adds or replaces an object. Returns the clusters whose scores changed.
    pub(crate) fn apply(&mut self, object: &ClusterScore) -> Vec<Arc<str>> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let spec = &object.spec;
        let old = self.cluster_of.get(name).cloned();
        let is_same = old.as_deref() == Some(&*spec.cluster_name)
            && self.spec(name).is_some_and(|known| known == spec);
        if is_same {
            return Vec::new();
        }
        let mut changed = Vec::new();
        if old.as_deref().is_some_and(|old| old != spec.cluster_name) {
            changed.extend(self.remove(name));
        }
        let cluster = old.filter(|old| **old == *spec.cluster_name);
        let cluster = cluster.unwrap_or_else(|| Arc::from(&*spec.cluster_name));
        self.cluster_of
            .insert(name.to_owned(), Arc::clone(&cluster));
        let objects = self.objects.entry(Arc::clone(&cluster)).or_default();
        objects.insert(name.to_owned(), spec.clone());
        self.combine(&cluster);
        changed.push(cluster);
        changed
    }

    /// Removes an object. Returns its cluster.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<str>> {
        let cluster = self.cluster_of.remove(name)?;
        if let Some(objects) = self.objects.get_mut(&cluster) {
            objects.remove(name);
            if objects.is_empty() {
                self.objects.remove(&cluster);
            }
        }
        self.combine(&cluster);
        Some(cluster)
    }

    /// Returns the spec of an object.
    pub(crate) fn spec(&self, name: &str) -> Option<&ClusterScoreSpec> {
        self.objects.get(self.cluster_of.get(name)?)?.get(name)
    }

    /// Returns the names of all objects.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.cluster_of.keys()
    }

    /// Returns the scores of each cluster.
    pub(crate) fn by_cluster(&self) -> &Arc<ScoresByCluster> {
        &self.by_cluster
    }

    fn combine(&mut self, cluster: &Arc<str>) {
        let by_cluster = Arc::make_mut(&mut self.by_cluster);
        match self.objects.get(cluster) {
            None => by_cluster.remove(cluster),
            Some(objects) => {
                let objects = objects.iter().map(|(name, spec)| (&**name, spec));
                by_cluster.insert(Arc::clone(cluster), Arc::new(ClusterScores::new(objects)))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, cluster: &str, value: f64) -> ClusterScore {
        let mut object = ClusterScore::new(
            name,
            ClusterScoreSpec {
                cluster_name: cluster.to_owned(),
                scores: BTreeMap::from([("carbon".to_owned(), value)]),
                ..ClusterScoreSpec::default()
            },
        );
        object.metadata.labels = Some(BTreeMap::new());
        object
    }

    #[test]
    fn changes_affect_the_clusters_of_the_object_only() {
        let mut table = ScoreTable::default();
        let names = |changed: Vec<Arc<str>>| changed.join(" ");
        assert_eq!(names(table.apply(&object("a", "m1", 1.0))), "m1");
        assert_eq!(names(table.apply(&object("b", "m2", 1.0))), "m2");
        let kept = Arc::clone(&table.by_cluster()["m2"]);
        assert_eq!(names(table.apply(&object("a", "m1", 1.0))), "");
        assert_eq!(names(table.apply(&object("a", "m1", 2.0))), "m1");
        assert!(Arc::ptr_eq(&kept, &table.by_cluster()["m2"]));
        assert_eq!(names(table.apply(&object("a", "m2", 2.0))), "m1 m2");
        assert!(!table.by_cluster().contains_key("m1"));
        assert_eq!(table.by_cluster()["m2"].conflicts().len(), 1);
        assert_eq!(table.remove("a").as_deref(), Some("m2"));
        assert_eq!(table.remove("a"), None);
        assert_eq!(table.by_cluster()["m2"], kept);
    }
}
