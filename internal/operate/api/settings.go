package api

// Paths of the settings of the process.
const (
	SettingsPath = "/api/v1/settings"        // GET: SettingList
	ReloadPath   = "/api/v1/settings/reload" // POST: Reloaded
)

// SettingList is the settings of the process as they are in force.
type SettingList struct {
	File     string    `json:"file,omitempty"` // that was read; absent for none
	Settings []Setting `json:"settings"`
}

// Setting is a setting of the process.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`   // without secrets; those of a list are separated by commas
	Default string `json:"default"` // its value, or words
	From    string `json:"from"`    // one of the sources below
	Source  string `json:"source"`  // the place: file:line:column, a variable or a flag; empty for the default
	Live    bool   `json:"live"`    // whether it changes without a restart
}

// Sources of settings.
const (
	FromDefault     = "default"
	FromFile        = "file"
	FromEnvironment = "environment"
	FromFlag        = "flag"
	FromCommand     = "command" // of an operator, until the settings are read again
)

// Reloaded is what came of reading the settings again.
type Reloaded struct {
	File     string          `json:"file,omitempty"` // that was read; absent for none
	Changes  []SettingChange `json:"changes"`
	Warnings []string        `json:"warnings,omitempty"`
}

// SettingChange is a setting that has changed.
type SettingChange struct {
	Name   string `json:"name"`
	Was    string `json:"was"` // without secrets, as Is
	Is     string `json:"is"`
	Source string `json:"source"` // of the new value; empty for the default
	Live   bool   `json:"live"`   // it is in force; otherwise it needs a restart
}
