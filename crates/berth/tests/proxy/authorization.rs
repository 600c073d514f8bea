//! Tests of the rights that a user needs for `clusters/NAME/proxy` in the control plane and for the request in the
//! member.

use http::{Method, Request};
use serde_json::json;

use crate::test_plane::{TestPlane, proxy, read_body, request, send};

#[tokio::test]
async fn the_control_plane_authorizes_the_proxy_and_the_member_authorizes_the_request() {
    let plane = TestPlane::start(2).await;
    let tom = plane.account("default", "tom").await;
    let own = proxy("member1");

    let (code, reason, message) = request(&tom, Method::GET, &format!("{own}/api"), "")
        .await
        .refusal();
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    let expected = "clusters.cluster.karmada.io \"member1\" is forbidden: User \
        \"system:serviceaccount:default:tom\" cannot get resource \"clusters/proxy\" in API group \
        \"cluster.karmada.io\" at the cluster scope";
    assert_eq!(message, expected);

    // Requests of the ServiceAccount tom reach the member when tom and the groups of tom have the right to use the
    // proxy. The rights of the groups let the impersonator account in the member impersonate these groups.
    let rule = json!({ "apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"],
        "resourceNames": ["member1"], "verbs": ["get"] });
    let account = json!({ "kind": "ServiceAccount", "name": "tom", "namespace": "default" });
    let admin = plane.admin();
    plane.grant(&admin, "tom", rule, account.clone()).await;
    let groups = json!({ "apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"],
        "resourceNames": ["member1"], "verbs": ["get"] });
    let all = json!({ "kind": "Group", "name": "system:serviceaccounts" });
    plane.grant(&admin, "accounts", groups.clone(), all).await;
    let namespace_accounts = json!({ "kind": "Group", "name": "system:serviceaccounts:default" });
    plane
        .grant(&admin, "accounts-default", groups, namespace_accounts)
        .await;
    plane.until_code(&tom, &format!("{own}/api"), 200).await;

    let nodes = format!("{own}/api/v1/nodes");
    let (code, _, message) = request(&tom, Method::GET, &nodes, "").await.refusal();
    let expected = "nodes is forbidden: User \"system:serviceaccount:default:tom\" cannot list \
        resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!((code, message.as_str()), (403, expected));

    // The control plane checks the verb of the HTTP method and the name of the cluster.
    let maps = format!("{own}/api/v1/namespaces/default/configmaps");
    let (code, _, message) = request(&tom, Method::POST, &maps, "{}").await.refusal();
    assert_eq!(code, 403);
    assert!(
        message.contains("cannot create resource \"clusters/proxy\""),
        "{message}"
    );
    let other = format!("{}/api", proxy("member2"));
    let (code, _, message) = request(&tom, Method::GET, &other, "").await.refusal();
    assert_eq!(code, 403);
    assert!(
        message.contains("clusters.cluster.karmada.io \"member2\""),
        "{message}"
    );

    let member = plane.through("member1");
    let rule = json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] });
    plane.grant(&member, "tom", rule, account).await;
    plane.until_code(&tom, &nodes, 200).await;
    plane.control_plane.stop().await;
}

#[tokio::test]
async fn impersonation_headers_are_checked_by_the_control_plane() {
    let plane = TestPlane::start(1).await;
    let path = format!(
        "{}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        proxy("member1")
    );
    let whoami = async |header: Option<(&str, &str)>| {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&path)
            .header("content-type", "application/json");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(b"{}".to_vec()).unwrap();
        read_body(send(&plane.admin(), request).await).await
    };
    let admin = whoami(None).await.json()["status"]["userInfo"].clone();
    assert_eq!(
        admin,
        json!({ "username": "berth:admin", "groups": ["system:masters", "system:authenticated"] })
    );
    // The control plane evaluates the impersonation headers, and the user zoe has no rights in the control plane.
    let (code, _, message) = whoami(Some(("impersonate-user", "zoe"))).await.refusal();
    assert_eq!(code, 403);
    assert!(
        message.contains("User \"zoe\" cannot create resource \"clusters/proxy\""),
        "{message}"
    );

    // As in Karmada, the member's impersonator cannot impersonate a user whose rights come only from a group.
    let request = Request::builder()
        .uri(format!("{}/api", proxy("member1")))
        .header("impersonate-user", "kim")
        .header("impersonate-group", "system:masters");
    let request = request.body(Vec::new()).unwrap();
    let (code, _, message) = read_body(send(&plane.admin(), request).await)
        .await
        .refusal();
    assert_eq!(code, 403);
    let impersonator =
        "User \"system:serviceaccount:karmada-cluster:karmada-impersonator\" cannot impersonate";
    assert!(message.contains(impersonator), "{message}");
    plane.control_plane.stop().await;
}
