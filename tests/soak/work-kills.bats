# work-kills - agent, podman's service and conmon are killed at 300 random instants (RNP_KILLS): half an hour.
load ../helper
load ../rnp-register/registry
load ../rnp-register/containers
load ../rnp-register/work

@test "work: kills at random instants lose no lease, double none, and leave nothing" {
	kill_rounds "${RNP_KILLS:-300}" "${RNP_SEED:-1}"
}
