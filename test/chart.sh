#!/bin/sh
#
# The Helm chart etc/chart: sh test/chart.sh [--build-dir DIR]
#
# Builds Helm and test/chart/check.go with Go, whose modules come from the proxy that Go is configured for. Then `helm lint`, and for a dozen
# sets of values `helm template`: each object fits the type of its API version strictly, and pgweir accepts each pgweir.ini that needs no
# file. PGWEIR names the pgweir binary; without it the files are not checked. The last line counts the checks; the status is 0 only if
# none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

# none of its own
take_option() { :; }
. "$top/test/options.sh"
setup_room
setup_builds

passed=0
failed=0

command -v go >/dev/null || fail "Go is not installed" "install Go 1.23 or later"
say "Building Helm and the checker"
mkdir -p "$builds/chart" "$builds/bin"
cp "$top"/test/chart/* "$builds/chart"
[ -e "$builds/bin/helm" ] || GOBIN=$builds/bin go install helm.sh/helm/v3/cmd/helm@v3.16.4
(cd "$builds/chart" && go build -o "$builds/bin/check" .)

# NAME HELM-OPTION...: renders the chart, and checks each object and the settings.
values() {
	name=$1
	shift
	"$builds/bin/helm" template "${release:-release}" "$top/etc/chart" --kube-version 1.29.0 "$@" >"$room/$name.yaml" 2>"$room/template.log" || {
		cat "$room/template.log"
		return 1
	}
	"$builds/bin/check" <"$room/$name.yaml" || return 1
	sed -n '/^  pgweir.ini: |/,/^---/p' "$room/$name.yaml" | sed -e 1d -e '/^---/d' -e '/^  [^ ]/d' -e 's/^    //' \
		-e '/_file = \/etc/d' -e '/_sslmode = /d' >"$room/$name.ini"
	[ -n "${PGWEIR-}" ] || return 0
	# the users of the Secret are not here
	"$PGWEIR" --check "$room/$name.ini"
}

say "Rendering"
check "helm lint" "$builds/bin/helm" lint "$top/etc/chart"
check "defaults" values defaults
check "a user list" values users --set auth.existingSecret=users
check "TLS for clients" values tls --set auth.existingSecret=users,tls.existingSecret=server
check "TLS to servers" values ca --set tls.serverCaSecret=ca
check "several databases" values databases --set-json 'databases={"shop":"host=a,b port=5432","*":"host=c"}'
check "users with limits" values limits --set-json 'users={"report":"pool_mode=session pool_size=5"}'
check "settings over defaults" values settings --set settings.max_client_conn=20000,settings.listen_backlog=4096,settings.http_auth=off
check "one replica without a budget" values one --set replicas=1,podDisruptionBudget.enabled=false
check "monitoring" values monitoring --set metrics.serviceMonitor.enabled=true,metrics.rules.enabled=true,metrics.dashboard.enabled=true \
	--set metrics.serviceMonitor.labels.release=prometheus,metrics.rules.labels.release=prometheus \
	--set-json 'metrics.serviceMonitor.basicAuth={"username":{"name":"s","key":"u"},"password":{"name":"s","key":"p"}}'
check "places" values places --set-json 'nodeSelector={"disk":"ssd"}' --set-json 'tolerations=[{"key":"db","operator":"Exists"}]' \
	--set-json 'affinity={"podAntiAffinity":{}}' --set priorityClassName=high,topologySpread=false
check "a load balancer" values balancer --set service.type=LoadBalancer,service.port=5432 \
	--set-json 'service.annotations={"service.beta.kubernetes.io/aws-load-balancer-type":"nlb"}'
check "labels, annotations, variables" values labels --set podLabels.team=shop,podAnnotations.note=yes \
	--set-json 'extraEnv=[{"name":"TZ","value":"UTC"}]' --set-json 'imagePullSecrets=[{"name":"registry"}]'
awk '/^    databases:/ { on = 1 } on && !/^    |^$/ { exit } on { sub(/^    /, ""); print }' "$top/doc/kubernetes.md" >"$room/page.yaml"
check "the values of doc/kubernetes.md" values page --set image.repository=registry.example.org/pgweir -f "$room/page.yaml"
check "no entry beside that of the page" test "$(grep -c ' = host=' "$room/page.ini" || :)" = 1
release=a-release-with-a-name-of-fifty-three-characters-xxxxx
check "a long name" values long --set metrics.dashboard.enabled=true
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
