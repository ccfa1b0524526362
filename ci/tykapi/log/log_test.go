package log

import (
	"testing"

	"github.com/sirupsen/logrus"
)

func TestLevelFromTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        logrus.Level
	}{
		{"TYK_LOGLEVEL", "", logrus.InfoLevel},
		{"TYK_LOGLEVEL", "info", logrus.InfoLevel},
		{"TYK_LOGLEVEL", "Warn", logrus.WarnLevel},
		{"TYK_LOGLEVEL", "ERROR", logrus.ErrorLevel},
		{"TYK_GW_LOGLEVEL", "debug", logrus.DebugLevel},
		{"TYK_LOGLEVEL", "loud", logrus.InfoLevel},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv("TYK_LOGLEVEL", "")
			t.Setenv("TYK_GW_LOGLEVEL", "")
			t.Setenv(c.name, c.value)
			if got := newLogger().Level; got != c.want {
				t.Fatalf("got %v", got)
			}
		})
	}
	if first := Get(); first != Get() {
		t.Fatal("want one logger")
	}
}

func TestJSONFormat(t *testing.T) {
	t.Setenv("TYK_LOGFORMAT", "json")
	if _, ok := newLogger().Formatter.(*logrus.JSONFormatter); !ok {
		t.Fatal("want the JSON formatter")
	}
}
