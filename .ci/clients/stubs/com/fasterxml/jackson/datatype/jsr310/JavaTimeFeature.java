package com.fasterxml.jackson.datatype.jsr310;

/** Stands for the enum of the same name, which Debian does not package. For compiling only. */
public enum JavaTimeFeature {
    NORMALIZE_DESERIALIZED_ZONE_ID,
    ALWAYS_ALLOW_STRINGIFIED_DATE_TIMESTAMPS;

    public boolean enabledByDefault() {
        return true;
    }
}
