// Package log gives plugins the gateway's logger.
package log

import (
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

var logger = newLogger()

// Get returns the one logger of the process.
func Get() *logrus.Logger { return logger }

func newLogger() *logrus.Logger {
	l := logrus.New()
	fields := logrus.FieldMap{logrus.FieldKeyMsg: "message"}
	if env("TYK_LOGFORMAT", "TYK_GW_LOGFORMAT") == "json" {
		l.Formatter = &logrus.JSONFormatter{FieldMap: fields, TimestampFormat: time.RFC3339}
	} else {
		l.Formatter = &logrus.TextFormatter{FieldMap: fields, TimestampFormat: time.RFC3339, FullTimestamp: true, DisableColors: true}
	}
	switch env("TYK_LOGLEVEL", "TYK_GW_LOGLEVEL") {
	case "error":
		l.Level = logrus.ErrorLevel
	case "warn":
		l.Level = logrus.WarnLevel
	case "debug":
		l.Level = logrus.DebugLevel
	}
	return l
}

// env returns the first of the variables that is set, in lower case.
func env(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return strings.ToLower(v)
		}
	}
	return ""
}
