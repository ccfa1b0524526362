package user

// Policy is a set of rights, limits and metadata that many keys share.
type Policy struct {
	ID           string                      `json:"id"`
	Name         string                      `json:"name"`
	OrgID        string                      `json:"org_id"`
	Rate         float64                     `json:"rate"`
	Per          float64                     `json:"per"`
	AccessRights map[string]AccessDefinition `json:"access_rights"`
	Active       bool                        `json:"active"`
	IsInactive   bool                        `json:"is_inactive"`
	Tags         []string                    `json:"tags"`
	Partitions   PolicyPartitions            `json:"partitions"`
	LastUpdated  string                      `json:"last_updated"`
	MetaData     map[string]interface{}      `json:"meta_data"`
}

// PolicyPartitions names the parts of a policy that apply; none means all.
type PolicyPartitions struct {
	Quota      bool `json:"quota"`
	RateLimit  bool `json:"rate_limit"`
	Complexity bool `json:"complexity"`
	Acl        bool `json:"acl"`
	PerAPI     bool `json:"per_api"`
}

// Enabled reports whether only some parts apply.
func (p PolicyPartitions) Enabled() bool {
	return p.Quota || p.RateLimit || p.Complexity || p.Acl
}
