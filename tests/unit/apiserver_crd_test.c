/* Custom resource definitions, and what the collector does: owners, namespaces, definitions. */
#include "apiserver_fixture.h"

TestSuite(apiserver_crd, .init = setup, .fini = teardown);
TestSuite(apiserver_collector, .init = setup, .fini = teardown);

#define CRDS  "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define SITES "/apis/example.com/v1/namespaces/default/websites"

static int define(const char *versions)
{
	_cleanup_(free_ptr) char *body =
	    xasprintf("{'apiVersion':'apiextensions.k8s.io/"
		      "v1','kind':'CustomResourceDefinition','metadata':{'name':'websites.example.com'},"
		      "'spec':{'group':'example.com','scope':'Namespaced','names':{'plural':'websites','kind'"
		      ":'Website','shortNames':['ws']},"
		      "'versions':[%s]}}",
		      versions);
	return CALL("POST", CRDS, body);
}
#define V1 "{'name':'v1','served':true,'storage':true,'subresources':{'status':{}}}"

Test(apiserver_crd, a_definition_makes_a_kind_at_once)
{
	EXPECT_CODE(404, GET(SITES));
	EXPECT_CODE(201, define(V1 ",{'name':'v1beta1','served':true,'storage':false},{'name':'v1alpha1','"
				   "served':false,'storage':false}"));
	EXPECT_AT(".status.conditions[?(@.type==\"Established\")].status", "True");
	EXPECT_AT(".status.acceptedNames.listKind", "WebsiteList");
	EXPECT_AT(".status.storedVersions", "[\"v1\"]");
	EXPECT_AT(".spec.names.singular", "website");
	EXPECT_CODE(200, GET("/apis/example.com"));
	EXPECT_AT(".versions[0].version", "v1");
	EXPECT_AT(".versions[1].version", "v1beta1");
	EXPECT_CODE(200, GET("/apis/example.com/v1"));
	EXPECT_AT(".resources[0].shortNames[0]", "ws");
	EXPECT_AT(".resources[1].name", "websites/status");
	EXPECT_CODE(404, GET("/apis/example.com/v1alpha1/websites"));
	EXPECT_CODE(400, CALL("POST", SITES, "{'metadata':{'name':'kindless'}}"));
	EXPECT_CODE(201, CALL("POST", SITES,
			      "{'kind':'Website','apiVersion':'example.com/"
			      "v1','metadata':{'name':'a'},'spec':{'x':null}}"));
	EXPECT_AT(".metadata.generation", "1");
	EXPECT_AT(".spec", "{\"x\":null}");
	EXPECT_CODE(200, GET("/apis/example.com/v1beta1/namespaces/default/websites/a"));
	EXPECT_AT(".apiVersion", "example.com/v1beta1");
	EXPECT_CODE(200, GET("/apis/example.com/v1beta1/websites"));
	EXPECT_AT(".kind", "WebsiteList");
	EXPECT_AT(".items[0].apiVersion", "example.com/v1beta1");
	EXPECT_CODE(422, CALL("PUT", SITES "/a",
			      "{'kind':'Website','apiVersion':'example.com/v1','metadata':{'name':'a'}}"));
	EXPECT_AT(".details.causes[0].field", "metadata.resourceVersion");
}

Test(apiserver_crd, the_status_subresource_is_per_version)
{
	EXPECT_CODE(201, define(V1 ",{'name':'v1beta1','served':true,'storage':false}"));
	EXPECT_CODE(201,
		    CALL("POST", SITES,
			 "{'apiVersion':'example.com/"
			 "v1','kind':'Website','metadata':{'name':'a'},'spec':{'n':1},'status':{'n':1}}"));
	EXPECT_AT(".status", "");
	EXPECT_CODE(200, PATCH_BY(MERGE, SITES "/a", "{'status':{'n':1}}"));
	EXPECT_AT(".status", "");
	EXPECT_CODE(200, PATCH_BY(MERGE, SITES "/a/status", "{'status':{'n':1}}"));
	EXPECT_AT(".status.n", "1");
	EXPECT_AT(".metadata.generation", "1");
	const char *beta = "/apis/example.com/v1beta1/namespaces/default/websites/a";
	EXPECT_CODE(200, PATCH_BY(MERGE, beta, "{'status':{'n':2}}"));
	EXPECT_AT(".status.n", "2");
	EXPECT_AT(".metadata.generation", "2");
	EXPECT_CODE(404,
		    PATCH_BY(MERGE, "/apis/example.com/v1beta1/namespaces/default/websites/a/status", "{}"));
}

Test(apiserver_crd, wrong_definitions_are_refused)
{
	EXPECT_CODE(422, define(""));
	EXPECT_CODE(422, define("{'name':'v1','served':true,'storage':false}"));
	EXPECT_CODE(422, define(V1 ",{'name':'v2','served':true,'storage':true}"));
	EXPECT_CODE(422, define("{'name':'V_1','served':true,'storage':true}"));
	EXPECT_CODE(422, CALL("POST", CRDS, "{'metadata':{'name':'a.example.com'}}"));
	EXPECT_CODE(422, CALL("POST", CRDS,
			      "{'metadata':{'name':'b.example.com'},'spec':{'group':'example.com','scope':'"
			      "Cluster','names':{'plural':'a',"
			      "'kind':'A'},'versions':[" V1 "]}}"));
	EXPECT_AT(".details.causes[0].field", "metadata.name");
	EXPECT_CODE(201, define(V1));
	EXPECT_CODE(422, PATCH_BY(MERGE, CRDS "/websites.example.com", "{'spec':{'scope':'Cluster'}}"));
	EXPECT_CODE(422, PATCH_BY(MERGE, CRDS "/websites.example.com",
				  "{'spec':{'names':{'listKind':'A\\',\\'b'}}}"));
	EXPECT_CODE(
	    422, PATCH_BY(MERGE, CRDS "/websites.example.com", "{'spec':{'names':{'shortNames':['A b']}}}"));
	EXPECT_CODE(422,
		    PATCH_BY(MERGE, CRDS "/websites.example.com", "{'spec':{'names':{'categories':[1]}}}"));
}

Test(apiserver_crd, columns_of_tables)
{
	EXPECT_CODE(201, define("{'name':'v1','served':true,'storage':true,'additionalPrinterColumns':[{'"
				"name':'Size','type':'integer',"
				"'jsonPath':'.spec.size'},{'name':'Ready','type':'string','jsonPath':'."
				"status.conditions[?(@.type==\\'Ready\\')].status'},"
				"{'name':'Born','type':'date','jsonPath':'.metadata.creationTimestamp'}]}"));
	EXPECT_CODE(201, CALL("POST", SITES,
			      "{'apiVersion':'example.com/"
			      "v1','kind':'Website','metadata':{'name':'a'},'spec':{'size':3},'status':{'"
			      "conditions':[{'type':'"
			      "Ready','status':'True'}]}}"));
	EXPECT_CODE(201, CALL("POST", SITES,
			      "{'apiVersion':'example.com/v1','kind':'Website','metadata':{'name':'b'}}"));
	accept_header = "application/json;as=Table;v=v1;g=meta.k8s.io";
	EXPECT_CODE(200, GET(SITES));
	EXPECT_AT(".rows[0].cells", "[\"a\",3,\"True\",\"0s\",\"0s\"]");
	EXPECT_AT(".rows[1].cells", "[\"b\",null,\"\",\"0s\",\"0s\"]");
}

Test(apiserver_crd, deleting_the_definition_deletes_its_objects)
{
	EXPECT_CODE(201, define(V1));
	EXPECT_CODE(201,
		    CALL("POST", SITES,
			 "{'apiVersion':'example.com/"
			 "v1','kind':'Website','metadata':{'name':'a','finalizers':['example.com/hold']}}"));
	struct watch *w = watch("/apis/example.com/v1/websites?watch=1");
	EXPECT_EVENTS(w, watch_clock(), WATCH_IDLE, "ADDED a");
	EXPECT_CODE(200, CALL("DELETE", CRDS "/websites.example.com", ""));
	collect();
	EXPECT_CODE(200, GET(CRDS "/websites.example.com"));
	EXPECT_CODE(200, PATCH_BY(MERGE, SITES "/a", "{'metadata':{'finalizers':[]}}"));
	collect();
	EXPECT_CODE(404, GET(CRDS "/websites.example.com"));
	EXPECT_CODE(404, GET(SITES));
	EXPECT_EVENTS(w, watch_clock(), WATCH_END, "MODIFIED a, DELETED a");
	watch_free(w);
	EXPECT_CODE(201, define(V1));
	EXPECT_CODE(200, GET(SITES));
	EXPECT_AT(".items", "[]");
}

Test(apiserver_crd, a_definition_whose_finalizer_was_taken_away_still_ends_its_kind)
{
	EXPECT_CODE(201, define(V1));
	EXPECT_CODE(200, PATCH_BY(MERGE, CRDS "/websites.example.com", "{'metadata':{'finalizers':null}}"));
	EXPECT_CODE(200, CALL("DELETE", CRDS "/websites.example.com", ""));
	EXPECT_CODE(404, GET(SITES));
	EXPECT_CODE(404, GET("/apis/example.com"));
}

Test(apiserver_crd, a_spec_may_have_a_field_called_finalizers)
{
	EXPECT_CODE(201, define(V1));
	EXPECT_CODE(201, CALL("POST", SITES,
			      "{'apiVersion':'example.com/"
			      "v1','kind':'Website','metadata':{'name':'a'},'spec':{'finalizers':['x']}}"));
	EXPECT_CODE(200, CALL("DELETE", SITES "/a", ""));
	EXPECT_CODE(404, GET(SITES "/a"));
}

/* ---- the collector ---- */

static void child(const char *name, const char *kind, const char *owner, const char *uid)
{
	_cleanup_(free_ptr) char *body = xasprintf("{'metadata':{'name':'%s','ownerReferences':[{'apiVersion'"
						   ":'v1','kind':'%s','name':'%s','uid':'%s'}]}}",
						   name, kind, owner, uid);
	EXPECT_CODE(201, CALL("POST", CM, body));
}

static char *owner(const char *name)
{
	_cleanup_(free_ptr) char *body = xasprintf("{'metadata':{'name':'%s'}}", name);
	EXPECT_CODE(201, CALL("POST", CM, body));
	return xstrdup(at(".metadata.uid"));
}

Test(apiserver_collector, dependents_follow_their_owner)
{
	_cleanup_(free_ptr) char *uid = owner("o");
	child("c", "ConfigMap", "o", uid);
	EXPECT_CODE(200, GET(CM "/c"));
	_cleanup_(free_ptr) char *child_uid = xstrdup(at(".metadata.uid"));
	child("grandchild", "ConfigMap", "c", child_uid);
	collect();
	EXPECT_CODE(200, GET(CM "/c"));
	EXPECT_CODE(200, CALL("DELETE", CM "/o", ""));
	collect();
	EXPECT_CODE(404, GET(CM "/c"));
	EXPECT_CODE(404, GET(CM "/grandchild"));
}

Test(apiserver_collector, an_owner_created_anew_is_another)
{
	_cleanup_(free_ptr) char *uid = owner("o");
	child("c", "ConfigMap", "o", uid);
	EXPECT_CODE(200, CALL("DELETE", CM "/o", ""));
	_cleanup_(free_ptr) char *other = owner("o");
	cr_assert_str_neq(other, uid);
	collect();
	EXPECT_CODE(404, GET(CM "/c"));
	EXPECT_CODE(200, GET(CM "/o"));
}

Test(apiserver_collector, kinds_that_are_not_served_keep_their_dependents)
{
	child("c", "Unknown", "o", "11111111-1111-4111-8111-111111111111");
	child("d", "ConfigMap", "o", "11111111-1111-4111-8111-111111111111");
	collect();
	EXPECT_CODE(200, GET(CM "/c"));
	EXPECT_CODE(404, GET(CM "/d"));
}

Test(apiserver_collector, an_owner_in_another_namespace_is_none)
{
	EXPECT_CODE(201,
		    CALL("POST", "/api/v1/namespaces/kube-system/configmaps", "{'metadata':{'name':'o'}}"));
	_cleanup_(free_ptr) char *uid = xstrdup(at(".metadata.uid"));
	child("c", "ConfigMap", "o", uid);
	collect();
	EXPECT_CODE(404, GET(CM "/c"));
	EXPECT_CODE(200, GET("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=c"));
	EXPECT_AT(".items[0].reason", "OwnerRefInvalidNamespace");
	EXPECT_AT(".items[0].involvedObject.apiVersion", "v1");
	EXPECT_AT(".items[1].reason", "");
}

Test(apiserver_collector, one_of_two_owners_keeps_it)
{
	_cleanup_(free_ptr) char *one = owner("one"), *two = owner("two");
	_cleanup_(free_ptr) char *body =
	    xasprintf("{'metadata':{'name':'c','ownerReferences':[{'apiVersion':'v1','kind':'ConfigMap','"
		      "name':'one','uid':'%s'},"
		      "{'apiVersion':'v1','kind':'ConfigMap','name':'two','uid':'%s'}]}}",
		      one, two);
	EXPECT_CODE(201, CALL("POST", CM, body));
	EXPECT_CODE(200, CALL("DELETE", CM "/one", ""));
	collect();
	EXPECT_CODE(200, GET(CM "/c"));
	EXPECT_AT(".metadata.ownerReferences[0].name", "two");
	EXPECT_AT(".metadata.ownerReferences[1].name", "");
	EXPECT_CODE(200, CALL("DELETE", CM "/two", ""));
	collect();
	EXPECT_CODE(404, GET(CM "/c"));
}

Test(apiserver_collector, foreground_waits_for_dependents)
{
	_cleanup_(free_ptr) char *uid = owner("o");
	child("c", "ConfigMap", "o", uid);
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/c", "{'metadata':{'finalizers':['example.com/hold']}}"));
	EXPECT_CODE(200, CALL("DELETE", CM "/o", "{'propagationPolicy':'Foreground'}"));
	EXPECT_AT(".metadata.finalizers[0]", "foregroundDeletion");
	collect();
	EXPECT_CODE(200, GET(CM "/o"));
	EXPECT_CODE(200, GET(CM "/c"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/c", "{'metadata':{'finalizers':null}}"));
	collect();
	EXPECT_CODE(404, GET(CM "/c"));
	EXPECT_CODE(404, GET(CM "/o"));
}

Test(apiserver_collector, orphans_lose_their_owner)
{
	_cleanup_(free_ptr) char *uid = owner("o");
	child("c", "ConfigMap", "o", uid);
	EXPECT_CODE(200, CALL("DELETE", CM "/o?propagationPolicy=Orphan", ""));
	collect();
	EXPECT_CODE(404, GET(CM "/o"));
	EXPECT_CODE(200, GET(CM "/c"));
	EXPECT_AT(".metadata.ownerReferences", "");
}

Test(apiserver_collector, a_namespace_goes_with_what_is_in_it)
{
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces", "{'metadata':{'name':'doomed'}}"));
	EXPECT_AT(".status.phase", "Active");
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces/doomed/configmaps",
			      "{'metadata':{'name':'a','finalizers':['example.com/hold']}}"));
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces/doomed/secrets", "{'metadata':{'name':'s'}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, "/api/v1/namespaces/doomed",
				  "{'spec':null,'metadata':{'labels':{'a':'b'}}}"));
	EXPECT_AT(".spec.finalizers[0]", "kubernetes");
	EXPECT_CODE(200, CALL("DELETE", "/api/v1/namespaces/doomed", ""));
	EXPECT_AT(".status.phase", "Terminating");
	EXPECT_CODE(200, PATCH_BY(MERGE, "/api/v1/namespaces/doomed", "{'spec':{'finalizers':[]}}"));
	EXPECT_AT(".spec.finalizers[0]", "kubernetes");
	EXPECT_CODE(403, CALL("POST", "/api/v1/namespaces/doomed/configmaps", "{'metadata':{'name':'b'}}"));
	EXPECT_AT(".details.causes[0].reason", "NamespaceTerminating");
	collect();
	EXPECT_CODE(404, GET("/api/v1/namespaces/doomed/secrets/s"));
	EXPECT_CODE(200, GET("/api/v1/namespaces/doomed/configmaps/a"));
	EXPECT_CODE(200, PATCH_BY(MERGE, "/api/v1/namespaces/doomed/configmaps/a",
				  "{'metadata':{'finalizers':null}}"));
	collect();
	EXPECT_CODE(404, GET("/api/v1/namespaces/doomed"));
	EXPECT_CODE(200, GET("/api/v1/namespaces/default"));
}

Test(apiserver_collector, an_empty_namespace_waits_for_its_own_finalizers)
{
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces",
			      "{'metadata':{'name':'doomed','finalizers':['example.com/hold']}}"));
	EXPECT_CODE(200, CALL("DELETE", "/api/v1/namespaces/doomed", ""));
	collect();
	EXPECT_CODE(200, GET("/api/v1/namespaces/doomed"));
	EXPECT_AT(".spec.finalizers", "");
	EXPECT_CODE(200, PATCH_BY(MERGE, "/api/v1/namespaces/doomed", "{'metadata':{'finalizers':null}}"));
	EXPECT_CODE(404, GET("/api/v1/namespaces/doomed"));
}
