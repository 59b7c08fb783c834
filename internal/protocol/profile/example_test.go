package profile_test

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A session with Vosk whose client ends it properly: the server never sees the end message, which would make it close.
func ExampleBoundary() {
	vosk, err := profile.Named("vosk")
	if err != nil {
		fmt.Println(err)
		return
	}
	b := profile.New(vosk)
	var traffic profile.Traffic // of the session, counted by the caller

	// tell presents a whole message in one frame, as far as the Boundary inspects it.
	tell := func(d profile.Direction, op frame.Opcode, payload string) profile.Step {
		switch d {
		case profile.FromClient:
			traffic.Sent++
		case profile.FromServer:
			traffic.Received++
		}
		if b.Inspect(d)&(1<<op) == 0 {
			fmt.Printf("%-14s not inspected\n", payload)
			return profile.Step{}
		}
		s := b.Frame(d, op, int64(len(payload)), true)
		if s.Feed {
			s = b.Feed(d, []byte(payload), 0, true)
		}
		what := "relayed"
		if s.Pass == profile.Drop {
			what = "dropped"
		}
		fmt.Printf("%-14s %s, %v\n", payload, what, s.Then)
		return s
	}

	fmt.Println("dialed:", b.Dialed().Then)
	b.Begin(0x1122334455667788)
	tell(profile.FromClient, frame.Binary, "audio")
	tell(profile.FromServer, frame.Text, `{"partial":""}`)
	tell(profile.FromClient, frame.Binary, "audio")
	if s := tell(profile.FromClient, frame.Text, `{"eof" : 1}`); s.Then == profile.Replaced {
		s = b.ReplaceEnd(traffic)
		for i := range s.Send {
			m := &s.Send[i]
			fmt.Printf("sent: %.13q binary: %v\n", m.Append(nil, b.Token()), m.Binary)
		}
	}
	tell(profile.FromServer, frame.Text, `{"partial":""}`) // of the audio
	s := tell(profile.FromServer, frame.Text, `{"text":"hi"}`)
	fmt.Println("close the client with", s.Close)
	fmt.Println("end:", b.End(traffic).Then)
	tell(profile.FromServer, frame.Text, `{"partial":""}`) // of the silence
	tell(profile.FromServer, frame.Text, `{"text":""}`)    // of the second reset

	// Output:
	// dialed: ready
	// audio          relayed, continue
	// {"partial":""} not inspected
	// audio          not inspected
	// {"eof" : 1}    dropped, replaced
	// sent: "{\"reset\" : 1}" binary: false
	// sent: "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" binary: true
	// sent: "{\"reset\" : 1}" binary: false
	// {"partial":""} relayed, continue
	// {"text":"hi"}  relayed, finished
	// close the client with 1000
	// end: resetting
	// {"partial":""} dropped, continue
	// {"text":""}    dropped, ready
}

// What a client's URL may choose is listed; what is secret is passed on and never part of a key.
func ExampleProfile_Variant() {
	list, err := profile.Parse("own.yaml", []byte(`
profiles:
  own:
    variant:
      query: [language]
      allow: {language: [en, ja]}
      default: {language: en}
      private: {headers: [Authorization]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := list[0]
	header := func(values ...string) func(string) []string {
		return func(name string) []string {
			if name == "Authorization" {
				return values
			}
			return nil
		}
	}
	for _, query := range []string{"", "language=ja&color=red", "language=xx"} {
		v, err := p.Variant(query, header())
		fmt.Printf("key %q, to the server %q, error: %v\n", v.Key, v.Query, err)
	}
	v, _ := p.Variant("", header("Token x"))
	fmt.Printf("key %q, private: %v, to the server %q and %d header field\n", v.Key, v.Private, v.Query, len(v.Header))

	// Output:
	// key "language=en", to the server "language=en", error: <nil>
	// key "language=ja", to the server "language=ja", error: <nil>
	// key "", to the server "", error: invalid value "xx" for parameter language: use one of en, ja
	// key "", private: true, to the server "language=en" and 1 header field
}
