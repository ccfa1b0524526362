package main

import (
	"fmt"

	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/bundle/policy"
)

type policySet policy.Set

func loadPolicies(c policiesConf) (policySet, error) {
	if c.Source == "" || c.RecordName == "" {
		return nil, nil
	}
	var set policy.Set
	if err := readJSON(c.RecordName, &set); err != nil {
		return nil, fmt.Errorf("policies.policy_record_name: %w", err)
	}
	return policySet(set), nil
}

// apply merges a session's policies into it. On an error the key is not to be
// used.
func (set policySet) apply(s *user.SessionState, org string) error {
	_, err := policy.Set(set).Apply(s, org)
	return err
}
