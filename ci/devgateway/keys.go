package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/TykTechnologies/tyk/user"
)

// keyStore holds sessions as JSON, as the gateway's database does: whoever
// reads a session gets one of their own.
type keyStore struct {
	hashFunction string // names the hash in new tokens; "" makes legacy ones

	mu       sync.RWMutex
	sessions map[string][]byte
}

func newKeyStore(hashFunction string) *keyStore {
	return &keyStore{hashFunction: hashFunction, sessions: make(map[string][]byte)}
}

// find looks a key up as a client presents it: as the organisation's custom
// key, then literally. It returns the id it is stored under.
func (s *keyStore) find(org, key string) (id string, session *user.SessionState) {
	ids := []string{key}
	if tokenOrg(key) != org {
		ids = []string{s.token(org, key), key}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range ids {
		if b, ok := s.sessions[id]; ok {
			session := new(user.SessionState)
			if json.Unmarshal(b, session) == nil {
				return id, session
			}
		}
	}
	return "", nil
}

func (s *keyStore) save(id string, session *user.SessionState) error {
	b, err := json.Marshal(session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = b
	return nil
}

func (s *keyStore) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// token is the full form of a custom key, or of a new random one.
func (s *keyStore) token(org, key string) string {
	key = strings.TrimPrefix(key, org)
	if key == "" {
		b := make([]byte, 16)
		_, _ = rand.Read(b)
		key = hex.EncodeToString(b)
	}
	if s.hashFunction == "" {
		return org + key
	}
	return base64.StdEncoding.EncodeToString([]byte(
		fmt.Sprintf(`{"org":"%s","id":"%s","h":"%s"}`, org, key, s.hashFunction)))
}

// tokenOrg reads the organisation out of a full token: named in the token, or
// the 24 hex digits that a legacy one starts with.
func tokenOrg(token string) string {
	if b, err := base64.StdEncoding.DecodeString(token); err == nil && strings.HasPrefix(token, "ey") {
		var t struct {
			Org *string `json:"org"`
		}
		if json.Unmarshal(b, &t) == nil && t.Org != nil {
			return *t.Org
		}
	}
	if len(token) > 24 {
		if _, err := hex.DecodeString(token[:24]); err == nil {
			return token[:24]
		}
	}
	return ""
}

// keyHash names a key in answers and logs. The gateway has several functions
// for it; here it is always SHA-256.
func (g *gateway) keyHash(id string) string {
	if !g.conf.HashKeys {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
