package discovery

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/zkpath"
)

// Errors of this package. Use errors.Is.
var (
	// ErrInvalidInstance is returned for an instance that cannot be written, with the reason. Nothing was written.
	ErrInvalidInstance = errors.New("the instance cannot be registered")
	// ErrCorrupt is returned if the data of a node are not an instance, or its payload is of another type; or if the
	// instance is dynamic, but the node belongs to no session, so that it would outlive its process.
	ErrCorrupt = errors.New("the data are no service instance of this type: look who has written them")
	// ErrNoInstance is returned if a provider has no instance to choose.
	ErrNoInstance = errors.New("no instance of the service can be used")
)

// Type determines whether an instance outlives its process if that does not unregister it. Corresponds to Curator's
// ServiceType.
type Type int8

const (
	// Dynamic instances end with the session: an ephemeral node.
	Dynamic Type = iota
	// Static instances stay: a persistent node.
	Static
	// Permanent instances stay, as well. Curator's cleaning server deletes old static ones, but not these.
	Permanent
	// DynamicSequential is Dynamic with a number, so that several may have the same ID: an ephemeral
	// sequential node.
	DynamicSequential
)

var typeNames = [...]string{"DYNAMIC", "STATIC", "PERMANENT", "DYNAMIC_SEQUENTIAL"}

func (t Type) String() string {
	if !t.isKnown() {
		return fmt.Sprintf("Type(%d)", int8(t))
	}
	return typeNames[t]
}

func (t Type) isKnown() bool { return t >= Dynamic && t <= DynamicSequential }

// Instance is one instance of a service. Corresponds to Curator's ServiceInstance. In its JSON, empty fields except
// Name and ID are null.
type Instance[T any] struct {
	Name    string // of the service
	ID      string // unique in the service; Register makes a UUID if it is empty
	Address string // a host name or an IP address; nothing is guessed
	Port    int    // 0: none
	SSLPort int    // 0: none
	Payload T
	// RegistrationTime has a precision of a millisecond. Register takes the present time if it is zero.
	RegistrationTime time.Time
	Type             Type
	URISpec          URISpec
	// Disabled marks an instance as not to be used, like Curator's isEnabled. Providers leave it out.
	Disabled bool
}

// URI returns the URI that URISpec forms for the instance; values, which may be nil, replace and add fields.
// Corresponds to Curator's buildUriSpec.
func (i Instance[T]) URI(values map[string]string) string {
	return i.URISpec.buildURI(func(field string) string {
		if v, ok := values[field]; ok {
			return v
		}
		return i.uriField(field)
	})
}

func (i Instance[T]) uriField(name string) string {
	port := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	switch name {
	case "scheme":
		if i.SSLPort != 0 {
			return "https"
		}
		return "http"
	case "name":
		return i.Name
	case "id":
		return i.ID
	case "address":
		return i.Address
	case "port":
		return port(i.Port)
	case "ssl-port":
		return port(i.SSLPort)
	case "registration-time-utc":
		return fmt.Sprint(toMillis(i.RegistrationTime))
	case "service-type":
		return strings.ToLower(i.Type.String())
	}
	return ""
}

// toMillis returns a time in Java's milliseconds; the zero time is 0.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// withDefaults returns the instance with the fields that Register fills in.
func (i Instance[T]) withDefaults() Instance[T] {
	if i.ID == "" {
		i.ID = zkpath.NewGUID()
	}
	if i.RegistrationTime.IsZero() {
		i.RegistrationTime = time.Now()
	}
	i.RegistrationTime = fromMillis(toMillis(i.RegistrationTime))
	return i
}

// checkFields returns an error if an instance cannot be written.
func (i Instance[T]) checkFields() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrInvalidInstance, fmt.Errorf(format, args...))
	}
	for _, name := range []string{i.Name, i.ID} {
		if err := zkpath.Validate("/"+name, false); err != nil || name == "" || strings.Contains(name, "/") {
			return invalid("%q cannot be the name of a node", name)
		}
	}
	if !utf8.ValidString(i.Address) {
		return invalid("the address %q is not UTF-8", i.Address)
	}
	for _, port := range []int{i.Port, i.SSLPort} {
		if port < 0 || port > math.MaxUint16 {
			return invalid("there is no port %d", port)
		}
	}
	if !i.Type.isKnown() {
		return invalid("there is no %v", i.Type)
	}
	if _, err := i.URISpec.splitParts(); err != nil {
		return invalid("%w", err)
	}
	return nil
}
