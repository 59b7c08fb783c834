package memory

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	configtest.Run(t, func(*testing.T) configtest.Place {
		return configtest.Place{Single: true, Open: func(t testing.TB, options config.Options) config.Store {
			t.Helper()
			s, err := New(config.NewContent(), options)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}

// It begins with what it is given, if that makes sense.
func TestNew(t *testing.T) {
	content := config.NewContent()
	content.Services["stt"] = config.DefaultService()
	s, err := New(content, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snapshot, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := snapshot.Service("stt"); !ok {
		t.Error("the service is not there")
	}
	content.Services["other"] = config.Service{Path: "no slash"}
	var problems config.Problems
	if _, err := New(content, config.Options{}); !errors.As(err, &problems) {
		t.Errorf("an invalid content: %v", err)
	}
}

// The history does not grow for ever.
func TestHistoryIsBounded(t *testing.T) {
	s, err := New(config.NewContent(), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range kept + 10 {
		verb := config.Set
		if i == 0 {
			verb = config.Add
		}
		_, err := s.Apply(t.Context(), config.Change{Who: "test", Mutations: []config.Mutation{
			{Verb: verb, Kind: config.KindService, Name: "stt", Values: config.Values{"queue": strconv.Itoa(i)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.History(context.Background(), 1000)
	if err != nil || len(all) != kept {
		t.Errorf("%d revisions, %v; want %d", len(all), err, kept)
	}
	if _, err := s.At(t.Context(), "3"); !errors.Is(err, config.ErrNoVersion) {
		t.Errorf("a version that is gone: %v", err)
	}
}
