/* Creating, updating, patching and deleting, as a client sees them. */
#include "apiserver_fixture.h"

TestSuite(apiserver_write, .init = setup, .fini = teardown);

Test(apiserver_write, create_fills_in_what_the_server_owns)
{
	EXPECT_CODE(
	    201,
	    CALL("POST", CM,
		 "{'kind':'ConfigMap','apiVersion':'v1','metadata':{'name':'a','uid':'mine','generation':9,"
		 "'creationTimestamp':null,'labels':{}},'data':{'k':'v'}}"));
	EXPECT_AT(".kind", "ConfigMap");
	EXPECT_AT(".apiVersion", "v1");
	EXPECT_AT(".metadata.namespace", "default");
	EXPECT_AT(".metadata.creationTimestamp", "2023-11-14T22:13:20Z");
	EXPECT_AT(".metadata.generation", "");
	EXPECT_AT(".metadata.labels", "");
	cr_expect_eq(strlen(at(".metadata.uid")), 36u);
	EXPECT_AT(".metadata.managedFields[0].manager", "test");
	EXPECT_AT(".metadata.managedFields[0].operation", "Update");
	EXPECT_CODE(409, CALL("POST", CM, "{'metadata':{'name':'a'}}"));
	EXPECT_AT(".reason", "AlreadyExists");
	EXPECT_AT(".message", "configmaps \"a\" already exists");
	EXPECT_AT(".details.name", "a");
	EXPECT_AT(".details.kind", "configmaps");
}

Test(apiserver_write, generated_names_are_free_and_valid)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'generateName':'web-'}}"));
	cr_expect_eq(strlen(at(".metadata.name")), 9u);
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'generateName':'web-'}}"));
	EXPECT_CODE(422, CALL("POST", CM, "{'metadata':{}}"));
	EXPECT_AT(".details.causes[0].field", "metadata.name");
}

Test(apiserver_write, wrong_identities_are_bad_requests)
{
	EXPECT_CODE(400, CALL("POST", CM, "{'kind':'Secret','metadata':{'name':'a'}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'apiVersion':'apps/v1','metadata':{'name':'a'}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':'a','namespace':'other'}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':7}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':'a','labels':{'x':1}}}"));
	EXPECT_CODE(400, CALL("POST", CM, "[]"));
	EXPECT_CODE(400, CALL("POST", CM, "{"));
	EXPECT_CODE(400, CALL("POST", CM, ""));
	EXPECT_CODE(404, CALL("POST", "/api/v1/namespaces/missing/configmaps", "{'metadata':{'name':'a'}}"));
	EXPECT_AT(".message", "namespaces \"missing\" not found");
	EXPECT_CODE(415, call_typed("POST", CM, "text/plain", "{}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'\xff'}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'\xed\xa0\x80'}}"));
	EXPECT_CODE(201,
		    CALL("POST", CM,
			 "{'metadata':{'name':'text'},'data':{'k':'\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80'}}"));
	EXPECT_CODE(415, call_typed("POST", CM, "application/vnd.kubernetes.protobuf", "k8s"));
}

Test(apiserver_write, invalid_objects_name_every_field)
{
	EXPECT_CODE(422, CALL("POST", CM,
			      "{'metadata':{'name':'A_b','labels':{'-':'x','a':'b c'},'finalizers':['a b'],"
			      "'ownerReferences':[{'apiVersion':'v1','kind':'Pod','name':'p'}]}}"));
	EXPECT_AT(".reason", "Invalid");
	EXPECT_AT(".details.kind", "ConfigMap");
	EXPECT_AT(".details.causes[0].field", "metadata.name");
	EXPECT_AT(".details.causes[1].field", "metadata.labels");
	EXPECT_AT(".details.causes[2].field", "metadata.labels");
	EXPECT_AT(".details.causes[3].field", "metadata.finalizers");
	EXPECT_AT(".details.causes[4].field", "metadata.ownerReferences[0].uid");
	EXPECT_CODE(400, CALL("POST", "/api/v1/namespaces/default/secrets",
			      "{'metadata':{'name':'s'},'data':{'a':'not base64!'}}"));
	EXPECT_CODE(400, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'a':1}}"));
	EXPECT_CODE(422, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'a/b':''}}"));
	EXPECT_CODE(422, CALL("POST", "/api/v1/namespaces/default/services", "{'metadata':{'name':'1a'}}"));
}

Test(apiserver_write, names_with_percent_and_slash_are_refused_where_names_are_free)
{
	const char *roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
	EXPECT_CODE(422, CALL("POST", roles, "{'metadata':{'name':'a%b'}}"));
	EXPECT_CODE(422, CALL("POST", roles, "{'metadata':{'name':'a/b'}}"));
	EXPECT_CODE(201, CALL("POST", roles, "{'metadata':{'name':'acme:site:reader'}}"));
	EXPECT_CODE(200, GET("/apis/rbac.authorization.k8s.io/v1/clusterroles/acme:site:reader"));
	EXPECT_CODE(200, GET("/apis/rbac.authorization.k8s.io/v1/clusterroles/acme%3Asite%3Areader"));
	EXPECT_CODE(422,
		    PATCH_BY(APPLY, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%2Fb?fieldManager=m",
			     "{'apiVersion':'rbac.authorization.k8s.io/"
			     "v1','kind':'ClusterRole','metadata':{'name':'a/b'}}"));
	EXPECT_CODE(422,
		    PATCH_BY(APPLY, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%25b?fieldManager=m",
			     "{'apiVersion':'rbac.authorization.k8s.io/"
			     "v1','kind':'ClusterRole','metadata':{'name':'a%b'}}"));
}

Test(apiserver_write, put_needs_the_version_it_read)
{
	char body[256], version[32];
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'1'}}"));
	snprintf(version, sizeof(version), "%s", at(".metadata.resourceVersion"));
	snprintf(body, sizeof(body), "{'metadata':{'name':'a','resourceVersion':'%s'},'data':{'k':'2'}}",
		 version);
	EXPECT_CODE(200, CALL("PUT", CM "/a", body));
	EXPECT_CODE(409, CALL("PUT", CM "/a", body));
	EXPECT_AT(".reason", "Conflict");
	EXPECT_AT(".message", "Operation cannot be fulfilled on configmaps \"a\": the object has been "
			      "modified; please apply your changes to "
			      "the latest version and try again");
	EXPECT_CODE(200, CALL("PUT", CM "/a", "{'metadata':{'name':'a'},'data':{'k':'3'}}"));
	EXPECT_CODE(409, CALL("PUT", CM "/a", "{'metadata':{'name':'a','uid':'other'},'data':{}}"));
	EXPECT_CODE(400, CALL("PUT", CM "/a", "{'metadata':{'name':'b'}}"));
	EXPECT_CODE(404, CALL("PUT", CM "/b", "{'metadata':{'name':'b'}}"));
}

Test(apiserver_write, what_changes_nothing_is_no_write)
{
	char version[32];
	EXPECT_CODE(
	    201, CALL("POST", CM, "{'metadata':{'name':'a','labels':{'x':'y'}},'data':{'k':'1','l':'2'}}"));
	snprintf(version, sizeof(version), "%s", at(".metadata.resourceVersion"));
	EXPECT_CODE(200, CALL("PUT", CM "/a",
			      "{'data':{'l':'2','k':'1'},'metadata':{'labels':{'x':'y'},'name':'a'}}"));
	EXPECT_AT(".metadata.resourceVersion", version);
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'data':{'k':'1'}}"));
	EXPECT_AT(".metadata.resourceVersion", version);
}

Test(apiserver_write, generation_counts_the_desired_state_only)
{
	const char *sts = "/apis/apps/v1/namespaces/default/statefulsets",
		   *one = "/apis/apps/v1/namespaces/default/statefulsets/s";
	const char *status = "/apis/apps/v1/namespaces/default/statefulsets/s/status";
	EXPECT_CODE(
	    201,
	    CALL(
		"POST", sts,
		"{'metadata':{'name':'s'},'spec':{'replicas':1,'serviceName':'x'},'status':{'replicas':7}}"));
	EXPECT_AT(".metadata.generation", "1");
	EXPECT_AT(".status", "{}");
	EXPECT_CODE(200, PATCH_BY(MERGE, one, "{'metadata':{'labels':{'a':'b'}}}"));
	EXPECT_AT(".metadata.generation", "1");
	EXPECT_CODE(200, PATCH_BY(MERGE, one, "{'spec':{'replicas':2},'status':{'replicas':7}}"));
	EXPECT_AT(".metadata.generation", "2");
	EXPECT_AT(".status", "{}");
	EXPECT_CODE(
	    200, PATCH_BY(MERGE, status,
			  "{'spec':{'replicas':5},'metadata':{'labels':{'a':'c'}},'status':{'replicas':2}}"));
	EXPECT_AT(".metadata.generation", "2");
	EXPECT_AT(".metadata.labels.a", "b");
	EXPECT_AT(".spec.replicas", "2");
	EXPECT_AT(".status.replicas", "2");
	EXPECT_CODE(422, PATCH_BY(MERGE, one, "{'spec':{'serviceName':'y'}}"));
	EXPECT_AT(".details.causes[0].reason", "FieldValueForbidden");
}

Test(apiserver_write, patches_cannot_change_identity)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'}}"));
	EXPECT_CODE(422, PATCH_BY(MERGE, CM "/a", "{'metadata':{'uid':'other'}}"));
	EXPECT_AT(".details.causes[0].field", "metadata.uid");
	EXPECT_CODE(400, PATCH_BY(MERGE, CM "/a", "{'metadata':{'name':'b'}}"));
	EXPECT_CODE(400, PATCH_BY(MERGE, CM "/a", "{'metadata':{'namespace':'b'}}"));
	EXPECT_CODE(409, PATCH_BY(MERGE, CM "/a", "{'metadata':{'resourceVersion':'1'},'data':{'x':'y'}}"));
	EXPECT_CODE(409, PATCH_BY(MERGE, CM "/a",
				  "{'metadata':{'resourceVersion':'1','uid':'other'},'data':{'x':'y'}}"));
	EXPECT_CODE(404, PATCH_BY(MERGE, CM "/b", "{'data':{'x':'y'}}"));
	EXPECT_CODE(400, PATCH_BY(MERGE, CM "/a", "[]"));
	EXPECT_CODE(415, PATCH_BY("application/json", CM "/a", "{}"));
}

Test(apiserver_write, numbers_stay_the_text_they_came_as)
{
	EXPECT_CODE(201, CALL("POST", "/apis/apps/v1/namespaces/default/deployments",
			      "{'metadata':{'name':'d'},'spec':{'big':9007199254740993,'f':1.20}}"));
	EXPECT_CODE(200,
		    PATCH_BY(MERGE, "/apis/apps/v1/namespaces/default/deployments/d", "{'spec':{'x':1}}"));
	EXPECT_AT(".spec.big", "9007199254740993");
	EXPECT_AT(".spec.f", "1.20");
}

Test(apiserver_write, json_patch)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'1'}}"));
	EXPECT_CODE(
	    200,
	    PATCH_BY(JSON_PATCH, CM "/a",
		     "[{'op':'test','path':'/data/k','value':'1'},{'op':'add','path':'/data/l','value':'2'},"
		     "{'op':'move','from':'/data/k','path':'/data/m'},{'op':'replace','path':'/data/"
		     "l','value':'3'}]"));
	EXPECT_AT(".data", "{\"l\":\"3\",\"m\":\"1\"}");
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, CM "/a", "[{'op':'test','path':'/data/l','value':'1'}]"));
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, CM "/a", "[{'op':'remove','path':'/data/none'}]"));
	EXPECT_CODE(400, PATCH_BY(JSON_PATCH, CM "/a", "[{'op':'grow','path':'/data'}]"));
	EXPECT_CODE(400, PATCH_BY(JSON_PATCH, CM "/a", "{}"));
}

Test(apiserver_write, secrets)
{
	const char *secrets = "/api/v1/namespaces/default/secrets";
	EXPECT_CODE(201,
		    CALL("POST", secrets,
			 "{'metadata':{'name':'s'},'stringData':{'password':'hunter2'},'immutable':true}"));
	EXPECT_AT(".data.password", "aHVudGVyMg==");
	EXPECT_AT(".stringData", "");
	EXPECT_AT(".type", "Opaque");
	EXPECT_CODE(
	    422, PATCH_BY(MERGE, "/api/v1/namespaces/default/secrets/s", "{'stringData':{'password':'x'}}"));
	EXPECT_CODE(422, PATCH_BY(MERGE, "/api/v1/namespaces/default/secrets/s", "{'immutable':false}"));
	EXPECT_CODE(422, PATCH_BY(MERGE, "/api/v1/namespaces/default/secrets/s", "{'type':'other'}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, "/api/v1/namespaces/default/secrets/s",
				  "{'metadata':{'labels':{'a':'b'}}}"));
}

Test(apiserver_write, dry_run_changes_nothing)
{
	EXPECT_CODE(201, CALL("POST", CM "?dryRun=All", "{'metadata':{'name':'a'}}"));
	EXPECT_CODE(404, GET(CM "/a"));
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'1'}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a?dryRun=All", "{'data':{'k':'2'}}"));
	EXPECT_AT(".data.k", "2");
	EXPECT_CODE(200, CALL("DELETE", CM "/a?dryRun=All", ""));
	EXPECT_CODE(200, GET(CM "/a"));
	EXPECT_AT(".data.k", "1");
	EXPECT_CODE(422, CALL("POST", CM "?dryRun=Some", "{'metadata':{'name':'b'}}"));
}

Test(apiserver_write, yaml_bodies)
{
	EXPECT_CODE(201, call_typed("POST", CM, "application/yaml",
				    "metadata:\n  name: y\n  labels: {version: \"1.20\"}\ndata: {k: v}\n"));
	EXPECT_AT(".data.k", "v");
	EXPECT_CODE(
	    400, call_typed("POST", CM, "application/yaml", "metadata: {name: z, labels: {version: 1.20}}"));
	EXPECT_CODE(400, call_typed("POST", CM, "application/yaml", "a: [\n"));
	EXPECT_CODE(400, call_typed("POST", CM, "application/yaml", "a: 1\n---\nb: 2\n"));
}

/* ---- deleting ---- */

Test(apiserver_write, finalizers_hold_a_deleted_object)
{
	const char *one = "/apis/apps/v1/namespaces/default/deployments/d";
	EXPECT_CODE(
	    201, CALL("POST", "/apis/apps/v1/namespaces/default/deployments",
		      "{'metadata':{'name':'d','finalizers':['example.com/a','example.com/b']},'spec':{}}"));
	EXPECT_CODE(200, CALL("DELETE", one, ""));
	EXPECT_AT(".kind", "Deployment");
	EXPECT_AT(".metadata.deletionTimestamp", "2023-11-14T22:13:20Z");
	EXPECT_AT(".metadata.deletionGracePeriodSeconds", "0");
	EXPECT_AT(".metadata.generation", "2");
	EXPECT_CODE(200, CALL("DELETE", one, ""));
	EXPECT_AT(".metadata.generation", "2");
	EXPECT_CODE(422,
		    PATCH_BY(MERGE, one, "{'metadata':{'finalizers':['example.com/a','example.com/c']}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, one,
				  "{'metadata':{'finalizers':['example.com/a'],'deletionTimestamp':null}}"));
	EXPECT_AT(".metadata.deletionTimestamp", "2023-11-14T22:13:20Z");
	EXPECT_CODE(200, PATCH_BY(MERGE, one, "{'metadata':{'finalizers':null}}"));
	EXPECT_CODE(404, GET(one));
}

Test(apiserver_write, delete_honours_preconditions)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'}}"));
	EXPECT_CODE(409, CALL("DELETE", CM "/a", "{'preconditions':{'uid':'other'}}"));
	EXPECT_CODE(409, CALL("DELETE", CM "/a", "{'preconditions':{'resourceVersion':'1'}}"));
	EXPECT_CODE(422, CALL("DELETE", CM "/a?propagationPolicy=Sideways", ""));
	EXPECT_CODE(400, CALL("DELETE", CM "/a", "{'kind':'Pod'}"));
	EXPECT_CODE(200, CALL("DELETE", CM "/a", "{'kind':'DeleteOptions','apiVersion':'v1'}"));
	EXPECT_AT(".status", "Success");
	EXPECT_CODE(404, CALL("DELETE", CM "/a", ""));
	EXPECT_CODE(403, CALL("DELETE", "/api/v1/namespaces/default", ""));
}

Test(apiserver_write, deletecollection_takes_what_the_selector_says)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a','labels':{'x':'1'}}}"));
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'b','labels':{'x':'2'}}}"));
	EXPECT_CODE(200, CALL("DELETE", CM "?labelSelector=x%3D1", ""));
	EXPECT_AT(".items[0].metadata.name", "a");
	EXPECT_AT(".items[1].metadata.name", "");
	EXPECT_CODE(404, GET(CM "/a"));
	EXPECT_CODE(200, GET(CM "/b"));
	EXPECT_CODE(405, CALL("DELETE", "/api/v1/configmaps", ""));
}

Test(apiserver_write, a_full_store_refuses_to_grow)
{
	storage_free(store);
	store = storage_new(100, 4096, (uint64_t)now * 10000);
	seed_namespaces(store, now);
	char body[4096];
	memset(body, 'x', sizeof(body));
	snprintf(body, 64, "{'metadata':{'name':'a'},'data':{'k':'");
	body[strlen(body)] = 'x';
	snprintf(body + 3000, 64, "'}}");
	EXPECT_CODE(500, CALL("POST", CM, body));
	EXPECT_CODE(404, GET(CM "/a"));
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'b'}}"));
}

Test(apiserver_write, strategic_merge_patches_merge_lists_by_their_keys)
{
#define STRATEGIC "application/strategic-merge-patch+json"
	const char *one = "/apis/apps/v1/namespaces/default/deployments/d";
	EXPECT_CODE(201,
		    CALL("POST", "/apis/apps/v1/namespaces/default/deployments",
			 "{'metadata':{'name':'d','finalizers':['a/b','c/"
			 "d']},'spec':{'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':1}},"
			 "'template':{'spec':{'containers':[{'name':'a','image':'i1','args':['1','2']},{'"
			 "name':'b','image':'i2'}]}}}}"));
	EXPECT_CODE(
	    200, PATCH_BY(STRATEGIC, one,
			  "{'metadata':{'labels':{'l':'1'},'finalizers':['e/f'],'$deleteFromPrimitiveList/"
			  "finalizers':['a/b']},"
			  "'spec':{'strategy':{'$retainKeys':['type'],'type':'Recreate'},'template':{'spec':{"
			  "'$setElementOrder/containers':[{'name':'c'},{'name':'a'}],"
			  "'containers':[{'name':'c','image':'i3','env':null},{'name':'a','args':['3']},{'"
			  "name':'b','$patch':'delete'}]}}}}"));
	EXPECT_AT(".metadata.labels.l", "1");
	EXPECT_AT(".metadata.finalizers", "[\"c/d\",\"e/f\"]");
	EXPECT_AT(".spec.strategy", "{\"type\":\"Recreate\"}");
	EXPECT_AT(".spec.template.spec.containers",
		  "[{\"name\":\"a\",\"image\":\"i1\",\"args\":[\"3\"]},{\"name\":\"c\",\"image\":\"i3\"}]");
	EXPECT_CODE(
	    200,
	    PATCH_BY(STRATEGIC, one,
		     "{'spec':{'template':{'spec':{'containers':[{'$patch':'replace'},{'name':'z'}]}}}}"));
	EXPECT_AT(".spec.template.spec.containers", "[{\"name\":\"z\"}]");
	EXPECT_CODE(200, PATCH_BY(STRATEGIC, one, "{'spec':{'strategy':{'$patch':'delete'}}}"));
	EXPECT_AT(".spec.strategy", "");
	EXPECT_CODE(400, PATCH_BY(STRATEGIC, one,
				  "{'spec':{'template':{'spec':{'containers':[{'image':'nameless'}]}}}}"));
	EXPECT_CODE(400, PATCH_BY(STRATEGIC, one, "[]"));
}

Test(apiserver_write, a_put_creates_where_the_kind_lets_it)
{
	const char *lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
	EXPECT_CODE(201, CALL("PUT", lease, "{'metadata':{'name':'l'},'spec':{'holderIdentity':'me'}}"));
	EXPECT_CODE(422, CALL("PUT", lease, "{'metadata':{'name':'l'},'spec':{'holderIdentity':'you'}}"));
	EXPECT_CODE(404, CALL("PUT", "/api/v1/namespaces/default/secrets/s", "{'metadata':{'name':'s'}}"));
	EXPECT_CODE(404, CALL("PUT", "/apis/coordination.k8s.io/v1/namespaces/none/leases/l",
			      "{'metadata':{'name':'l'}}"));
}

Test(apiserver_write, json_patches_cannot_multiply_the_object)
{
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'a'},'data':{'k':'1'}}"));
	_cleanup_(buf_done) struct buf patch = {0};
	buf_puts(&patch, "[");
	for (int i = 0; i < 60; i++)
		buf_printf(&patch, "%s{'op':'copy','from':'/data','path':'/data/%d'}", i ? "," : "", i);
	buf_puts(&patch, "]");
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, CM "/a", buf_str(&patch)));
	buf_reset(&patch);
	buf_puts(&patch, "[");
	for (int i = 0; i < 1001; i++)
		buf_printf(&patch, "%s{'op':'test','path':'/data/k','value':'1'}", i ? "," : "");
	buf_puts(&patch, "]");
	EXPECT_CODE(400, PATCH_BY(JSON_PATCH, CM "/a", buf_str(&patch)));
}

Test(apiserver_write, json_patch_arrays)
{
	const char *one = "/apis/apps/v1/namespaces/default/deployments/d";
	EXPECT_CODE(201, CALL("POST", "/apis/apps/v1/namespaces/default/deployments",
			      "{'metadata':{'name':'d'},'spec':{'l':[1,2],'a/b':{'~':1}}}"));
	EXPECT_CODE(200, PATCH_BY(JSON_PATCH, one,
				  "[{'op':'add','path':'/spec/l/0','value':0},{'op':'add','path':'/spec/l/"
				  "-','value':4},{'op':'add','path':'/spec/l/3','value':3},"
				  "{'op':'remove','path':'/spec/l/1'},{'op':'replace','path':'/spec/a~1b/"
				  "~0','value':{'x':[]}}]"));
	EXPECT_AT(".spec", "{\"l\":[0,2,3,4],\"a/b\":{\"~\":{\"x\":[]}}}");
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, one, "[{'op':'add','path':'/spec/l/9','value':0}]"));
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, one, "[{'op':'add','path':'/spec/l/01','value':0}]"));
	EXPECT_CODE(422, PATCH_BY(JSON_PATCH, one, "[{'op':'add','path':'spec','value':0}]"));
	EXPECT_CODE(400, PATCH_BY(JSON_PATCH, one, "[{'op':'replace','path':'','value':[]}]"));
	EXPECT_CODE(200, PATCH_BY(JSON_PATCH, one,
				  "[{'op':'copy','from':'/spec/l','path':'/spec/m'},{'op':'move','from':'/"
				  "spec/l','path':'/spec/n'}]"));
	EXPECT_AT(".spec.m", "[0,2,3,4]");
	EXPECT_AT(".spec.l", "");
}
