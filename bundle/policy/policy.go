// Package policy merges policies into a key's session as a Tyk Gateway does. The
// development host and "bundle explain" use it.
package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/TykTechnologies/tyk/user"
)

// A Set holds policies by their ids.
type Set map[string]user.Policy

// UnmarshalJSON reads the file of policy_source "file", where the name of each
// policy is its id.
func (set *Set) UnmarshalJSON(b []byte) error {
	var read map[string]user.Policy
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	for id, p := range read {
		p.ID = id
		read[id] = p
	}
	*set = read
	return nil
}

// Sources name the policies that a session's values come from; what is not
// there is the key's own.
type Sources struct {
	Metadata map[string]string // by the name of the field
	Rate     string            // of the session's rate and per
	Access   map[string]string // of the limits in access_rights, by API
	Skipped  []string          // policies that the key has and the set has not
}

// Apply merges a session's policies into it. org is the API's organisation, ""
// when there is no API. On an error the key is not to be used.
func (set Set) Apply(s *user.SessionState, org string) (Sources, error) {
	if s.MetaData == nil {
		s.MetaData = make(map[string]interface{})
	}
	ids := s.PolicyIDs()
	if len(ids) == 0 {
		for id, access := range s.AccessRights {
			if !access.Limit.IsEmpty() {
				access.AllowanceScope = id
				s.AccessRights[id] = access
			}
		}
		return Sources{}, nil
	}
	m := merge{session: s, rights: make(map[string]*right)}
	m.from = Sources{Metadata: make(map[string]string), Access: make(map[string]string)}
	policies, err := m.pick(set, ids, cmp.Or(s.OrgID, org), org)
	if err != nil {
		return Sources{}, err
	}
	if m.clear(policies); len(policies) > 0 {
		s.IsInactive = false
	}
	for _, p := range policies {
		if err := m.add(p); err != nil {
			return Sources{}, err
		}
	}
	err = m.finish()
	return m.from, err
}

// merge collects what policies say about one session.
type merge struct {
	session   *user.SessionState
	rights    map[string]*right
	perAPI    bool
	partition bool
	from      Sources
}

// right is the access to one API and what of it a policy has set.
type right struct {
	user.AccessDefinition
	acl, rate bool
	all       bool   // nothing is left to the session
	from      string // policy of the limit
}

// pick looks policies up. A policy that is missing is skipped, unless it is the
// only one.
func (m *merge) pick(set Set, ids []string, org, apiOrg string) ([]user.Policy, error) {
	var found []user.Policy
	for _, id := range ids {
		p, ok := set[id]
		switch {
		case !ok || p.OrgID != org:
			if len(ids) == 1 {
				return nil, fmt.Errorf("policy not found: %q", id)
			}
			m.from.Skipped = append(m.from.Skipped, id)
		case apiOrg != "" && p.OrgID != apiOrg:
			return nil, fmt.Errorf("policy %q belongs to another organisation than the API", id)
		default:
			found = append(found, p)
		}
	}
	return found, nil
}

// clear forgets the session's rate where a policy brings its own.
func (m *merge) clear(policies []user.Policy) {
	for _, p := range policies {
		if p.Partitions.RateLimit || !p.Partitions.Enabled() {
			m.session.Rate, m.session.Per = 0, 0
		}
	}
}

func (m *merge) add(p user.Policy) error {
	parts := p.Partitions
	switch {
	case parts.PerAPI && parts.Enabled():
		return fmt.Errorf("policy %q: partitions: per_api excludes the others", p.ID)
	case parts.PerAPI && m.partition, parts.Enabled() && m.perAPI:
		return errors.New("policies with per_api and with other partitions do not mix")
	case parts.PerAPI:
		m.addPerAPI(p)
	default:
		m.addPartitions(p)
	}
	s := m.session
	s.IsInactive = s.IsInactive || p.IsInactive
	s.LastUpdated = max(s.LastUpdated, p.LastUpdated)
	for _, tag := range p.Tags {
		if !slices.Contains(s.Tags, tag) {
			s.Tags = append(s.Tags, tag)
		}
	}
	maps.Copy(s.MetaData, p.MetaData)
	for name := range p.MetaData {
		m.from.Metadata[name] = p.ID
	}
	return nil
}

// addPerAPI gives every API its own limit, or the policy's.
func (m *merge) addPerAPI(p user.Policy) {
	for id, access := range p.AccessRights {
		access.AllowanceScope = id
		if access.Limit.IsEmpty() {
			access.AllowanceScope = p.ID
			access.Limit.Rate, access.Limit.Per = p.Rate, p.Per
		}
		access.Limit.SetBy = access.AllowanceScope
		from := p.ID
		if had := m.rights[id]; had != nil && access.Limit.Duration() > had.Limit.Duration() {
			access.Limit, access.AllowanceScope, from = had.Limit, had.AllowanceScope, had.from
		}
		m.rights[id] = &right{AccessDefinition: access, acl: true, rate: true, all: true, from: from}
	}
	m.perAPI = m.perAPI || len(p.AccessRights) > 0
}

// addPartitions merges the parts that the policy is for; the higher rate wins.
func (m *merge) addPartitions(p user.Policy) {
	all := !p.Partitions.Enabled()
	rate := all || p.Partitions.RateLimit
	for id, access := range p.AccessRights {
		r := m.rights[id]
		if r == nil {
			r = new(right)
			m.rights[id] = r
		}
		if all || p.Partitions.Acl {
			r.acl, r.Limit.SetBy = true, p.ID
			for _, v := range access.Versions {
				if !slices.Contains(r.Versions, v) {
					r.Versions = append(r.Versions, v)
				}
			}
		}
		if rate {
			r.rate = true
			m.raise(p, r)
		}
		r.all = r.all || all
	}
	if len(p.AccessRights) == 0 && rate {
		m.session.Rate, m.session.Per, m.from.Rate = p.Rate, p.Per, p.ID
	}
	m.partition = !all
}

func (m *merge) raise(p user.Policy, r *right) {
	limit, offer := &r.Limit.RateLimit, user.RateLimit{Rate: p.Rate, Per: p.Per}
	if offer.Rate == 0 || offer.Per == 0 {
		return
	}
	if limit.Rate == 0 || limit.Per == 0 || limit.Duration() > offer.Duration() {
		*limit, r.from = offer, p.ID
	}
	s := m.session
	has := user.RateLimit{Rate: s.Rate, Per: s.Per}
	if has.Rate == 0 || has.Per == 0 || has.Duration() > offer.Duration() {
		s.Rate, s.Per, m.from.Rate = offer.Rate, offer.Per, p.ID
	}
}

// finish writes the rights into the session. Rights that no policy grants are
// dropped; a rate that no policy sets comes from the session.
func (m *merge) finish() error {
	rights := make(map[string]user.AccessDefinition)
	scopes := make(map[string]bool)
	for _, r := range m.rights {
		scopes[r.Limit.SetBy] = true
	}
	delete(scopes, "")
	for id, r := range m.rights {
		if !r.acl {
			continue
		}
		if !r.rate {
			r.Limit.Rate, r.Limit.Per, r.from = m.session.Rate, m.session.Per, m.from.Rate
		}
		if len(scopes) > 1 && r.AllowanceScope == "" {
			r.AllowanceScope = r.Limit.SetBy
		}
		r.Limit.SetBy = ""
		rights[id] = r.AccessDefinition
		if r.from != "" {
			m.from.Access[id] = r.from
		}
		if len(m.rights) == 1 && r.all {
			m.session.Rate, m.session.Per, m.from.Rate = r.Limit.Rate, r.Limit.Per, r.from
		}
	}
	if len(rights) == 0 {
		return errors.New("the key's policies grant access to nothing")
	}
	m.session.AccessRights = rights
	return nil
}
