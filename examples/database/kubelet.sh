#!/bin/sh
# A request comes in, an answer goes out: one replica more is ready; come back until all are.
exec jq -c '.object as $set | if $set == null or $set.metadata.deletionTimestamp then {} else
  ($set.spec.replicas // 1) as $want
  | ([($set.status.readyReplicas // 0) + 1, $want] | min) as $ready
  | {status: {replicas: $want, readyReplicas: $ready, observedGeneration: $set.metadata.generation}}
  + if $ready < $want then {result: {requeueAfter: "500ms"}} else {} end
end'
