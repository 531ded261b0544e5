/* Server-side apply: who owns what, conflicts, and what an apply leaves alone. */
#include "apiserver_fixture.h"

TestSuite(apiserver_apply, .init = setup, .fini = teardown);

#define DEPLOY "/apis/apps/v1/namespaces/default/deployments/d"
#define HEAD   "'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'d'}"

/* The fieldsV1 of a manager's entry; "" if it has none. */
static const char *fields_of(const char *manager, const char *operation)
{
	static struct buf text;
	struct json_iter it = {0};
	struct span key, entry, list = table_value(buf_span(&answer.body), ".metadata.managedFields");
	buf_reset(&text);
	while (list.at && json_each(list, &it, &key, &entry))
		if (json_string_is(json_get(entry, "manager"), manager) &&
		    json_string_is(json_get(entry, "operation"), operation))
			buf_span_add(&text, json_get(entry, "fieldsV1"));
	return buf_str(&text);
}
#define EXPECT_FIELDS(manager, operation, json)                                                              \
	do {                                                                                                 \
		_cleanup_(free_ptr) char *wanted_ = quoted(json);                                            \
		cr_expect_str_eq(fields_of(manager, operation), wanted_);                                    \
	} while (0)

Test(apiserver_apply, creates_then_changes_nothing)
{
	char version[32];
	const char *config =
	    "{" HEAD ",'spec':{'replicas':2,'template':{'spec':{'containers':[{'name':'c','image':'i'}]}}}}";
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a&force=true", config));
	EXPECT_AT(".metadata.generation", "1");
	EXPECT_FIELDS("a", "Apply",
		      "{'f:spec':{'f:replicas':{},'f:template':{'f:spec':{'f:containers':{'k:{\\'name\\':\\'"
		      "c\\'}':{'.':{},'f:name':{},'f:image':{}}}}}}}");
	snprintf(version, sizeof(version), "%s", at(".metadata.resourceVersion"));
	now += 100;
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "?fieldManager=a&force=true", config));
	EXPECT_AT(".metadata.resourceVersion", version);
	EXPECT_AT(".metadata.managedFields[0].time", "2023-11-14T22:13:20Z");
}

Test(apiserver_apply, conflicts_name_manager_and_field)
{
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, DEPLOY "?fieldManager=scaler", "{'spec':{'replicas':5}}"));
	EXPECT_FIELDS("a", "Apply", "");
	EXPECT_FIELDS("scaler", "Update", "{'f:spec':{'f:replicas':{}}}");
	EXPECT_CODE(409, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_AT(".reason", "Conflict");
	EXPECT_AT(".details.causes[0].reason", "FieldManagerConflict");
	EXPECT_AT(".details.causes[0].field", ".spec.replicas");
	EXPECT_AT(".details.causes[0].message", "conflict with \"scaler\" using apps/v1");
	EXPECT_CODE(200,
		    PATCH_BY(APPLY, DEPLOY "?fieldManager=a&force=true", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_AT(".spec.replicas", "2");
	EXPECT_FIELDS("scaler", "Update", "");
	EXPECT_FIELDS("a", "Apply", "{'f:spec':{'f:replicas':{}}}");
}

#define PORT(name)                                                                                           \
	"{" HEAD                                                                                             \
	",'spec':{'template':{'spec':{'containers':[{'name':'c','ports':[{'containerPort':80,'name':'" name  \
	"'}]}]}}}}"

Test(apiserver_apply, conflicts_in_list_items_name_their_keys)
{
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", PORT("http")));
	EXPECT_CODE(409, PATCH_BY(APPLY, DEPLOY "?fieldManager=b", PORT("web")));
	EXPECT_AT(".details.causes[0].field",
		  ".spec.template.spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].name");
}

Test(apiserver_apply, the_same_value_is_shared)
{
	EXPECT_CODE(
	    201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2,'paused':true}}"));
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "?fieldManager=b", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_FIELDS("a", "Apply", "{'f:spec':{'f:replicas':{},'f:paused':{}}}");
	EXPECT_FIELDS("b", "Apply", "{'f:spec':{'f:replicas':{}}}");
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD "}"));
	EXPECT_AT(".spec.replicas", "2");
	EXPECT_AT(".spec.paused", "");
}

Test(apiserver_apply, what_is_no_longer_applied_goes)
{
	EXPECT_CODE(201, PATCH_BY(APPLY, CM "/x?fieldManager=a",
				  "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'x','labels':{'l'"
				  ":'1'}},'data':{'p':'1','q':'2'}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/x?fieldManager=b", "{'data':{'r':'3'}}"));
	EXPECT_CODE(
	    200, PATCH_BY(APPLY, CM "/x?fieldManager=a",
			  "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'x'},'data':{'p':'1'}}"));
	EXPECT_AT(".data", "{\"p\":\"1\",\"r\":\"3\"}");
	EXPECT_AT(".metadata.labels", "");
}

Test(apiserver_apply, an_update_takes_what_it_changed_and_nothing_else)
{
	EXPECT_CODE(201, CALL("POST", CM "?fieldManager=maker",
			      "{'metadata':{'name':'x'},'data':{'p':'1','q':'2'}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/x?fieldManager=b", "{'data':{'q':'3','p':'1'}}"));
	EXPECT_FIELDS("maker", "Update", "{'f:data':{'f:p':{}}}");
	EXPECT_FIELDS("b", "Update", "{'f:data':{'f:q':{}}}");
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/x?fieldManager=c", "{'data':{'p':null}}"));
	EXPECT_FIELDS("maker", "Update", "");
	EXPECT_FIELDS("c", "Update", "");
}

Test(apiserver_apply, status_and_main_part_are_apart)
{
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a",
				  "{" HEAD ",'spec':{'replicas':2},'status':{'replicas':9}}"));
	EXPECT_AT(".status", "{}");
	EXPECT_FIELDS("a", "Apply", "{'f:spec':{'f:replicas':{}}}");
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "/status?fieldManager=a",
				  "{" HEAD ",'spec':{'replicas':3},'status':{'replicas':2}}"));
	EXPECT_AT(".spec.replicas", "2");
	EXPECT_AT(".status.replicas", "2");
	EXPECT_AT(".metadata.generation", "1");
	EXPECT_AT(".metadata.managedFields[1].subresource", "status");
	EXPECT_CODE(
	    404,
	    PATCH_BY(APPLY, "/apis/apps/v1/namespaces/default/deployments/none/status?fieldManager=a",
		     "{'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'none'},'status':{}}"));
}

Test(apiserver_apply, preconditions)
{
	EXPECT_CODE(
	    409, PATCH_BY(APPLY, DEPLOY "?fieldManager=a",
			  "{'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'d','uid':'u'}}"));
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_CODE(
	    422, PATCH_BY(APPLY, DEPLOY "?fieldManager=a",
			  "{'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'d','uid':'u'}}"));
	EXPECT_AT(".details.causes[0].field", "metadata.uid");
	EXPECT_CODE(409, PATCH_BY(APPLY, DEPLOY "?fieldManager=a",
				  "{'apiVersion':'apps/"
				  "v1','kind':'Deployment','metadata':{'name':'d','resourceVersion':'1'}}"));
	EXPECT_CODE(422, PATCH_BY(APPLY, DEPLOY, "{" HEAD "}"));
	EXPECT_AT(".details.causes[0].field", "fieldManager");
	EXPECT_CODE(400, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{'metadata':{'name':'d'}}"));
	EXPECT_CODE(
	    400,
	    PATCH_BY(
		APPLY, DEPLOY "?fieldManager=a",
		"{'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'d','managedFields':[]}}"));
	EXPECT_CODE(422, PATCH_BY(MERGE, DEPLOY "?force=true", "{}"));
}

Test(apiserver_apply, yaml_is_the_same)
{
	EXPECT_CODE(
	    201,
	    PATCH_BY(APPLY, DEPLOY "?fieldManager=a",
		     "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 2\n"));
	EXPECT_AT(".spec.replicas", "2");
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_AT(".metadata.managedFields[1].manager", "");
}

Test(apiserver_apply, nulls_and_empties_are_no_change)
{
	const char *config =
	    "{'apiVersion':'apps/"
	    "v1','kind':'Deployment','metadata':{'name':'d','creationTimestamp':null},'spec':{'replicas':1,"
	    "'template':{'metadata':{'annotations':{}},'spec':{'volumes':[],'nodeSelector':null}}}}";
	char version[32];
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a&force=true", config));
	snprintf(version, sizeof(version), "%s", at(".metadata.resourceVersion"));
	EXPECT_CODE(200, PATCH_BY(APPLY, DEPLOY "?fieldManager=a&force=true", config));
	EXPECT_AT(".metadata.resourceVersion", version);
}

Test(apiserver_apply, managers_can_be_forgotten)
{
	EXPECT_CODE(201, PATCH_BY(APPLY, DEPLOY "?fieldManager=a", "{" HEAD ",'spec':{'replicas':2}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, DEPLOY, "{'metadata':{'managedFields':[{}]}}"));
	EXPECT_AT(".metadata.managedFields", "");
	EXPECT_AT(".spec.replicas", "2");
}
